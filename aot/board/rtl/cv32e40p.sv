// SPDX-License-Identifier: Apache-2.0
// CV32E40P without floats and without the instructions of PULP: four stages, products in one cycle, no cache.
module core (
    input clock, reset, input [31:0] entry,
    output i_req, output [31:0] i_addr, input i_gnt, i_rvalid, input [31:0] i_rdata,
    output d_req, d_we, output [3:0] d_be, output [31:0] d_addr, d_wdata, input d_gnt, d_rvalid, input [31:0] d_rdata,
    output retired, output [31:0] pc
);
    cv32e40p_top top (
        .clk_i(clock), .rst_ni(!reset), .pulp_clock_en_i(1'b1), .scan_cg_en_i(1'b1), .boot_addr_i(entry),
        .mtvec_addr_i(entry), .dm_halt_addr_i('0), .hart_id_i('0), .dm_exception_addr_i('0),
        .instr_req_o(i_req), .instr_gnt_i(i_gnt), .instr_rvalid_i(i_rvalid), .instr_addr_o(i_addr),
        .instr_rdata_i(i_rdata),
        .data_req_o(d_req), .data_gnt_i(d_gnt), .data_rvalid_i(d_rvalid), .data_we_o(d_we), .data_be_o(d_be),
        .data_addr_o(d_addr), .data_wdata_o(d_wdata), .data_rdata_i(d_rdata),
        .irq_i('0), .debug_req_i(1'b0), .fetch_enable_i(1'b1)
    );
    assign retired = top.core_i.id_stage_i.minstret;
    assign pc = top.core_i.pc_id;
endmodule
