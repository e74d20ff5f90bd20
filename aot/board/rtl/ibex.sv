// SPDX-License-Identifier: Apache-2.0
// Ibex in its configuration "maxperf": three stages, products in one cycle, no cache. It begins 128 bytes into a block of
// 256: into the one before the program, where machine.cpp puts a jump.
module core (
    input clock, reset, input [31:0] entry,
    output i_req, output [31:0] i_addr, input i_gnt, i_rvalid, input [31:0] i_rdata,
    output d_req, d_we, output [3:0] d_be, output [31:0] d_addr, d_wdata, input d_gnt, d_rvalid, input [31:0] d_rdata,
    output retired, output [31:0] pc
);
    ibex_top #(
        .RV32M(ibex_pkg::RV32MSingleCycle), .BranchTargetALU(1'b1), .WritebackStage(1'b1), .MHPMCounterWidth(40)
    ) top (
        .clk_i(clock), .rst_ni(!reset), .test_en_i(1'b1), .ram_cfg_i('0), .hart_id_i('0), .boot_addr_i(entry - 256),
        .instr_req_o(i_req), .instr_gnt_i(i_gnt), .instr_rvalid_i(i_rvalid), .instr_addr_o(i_addr),
        .instr_rdata_i(i_rdata), .instr_rdata_intg_i('0), .instr_err_i(1'b0),
        .data_req_o(d_req), .data_gnt_i(d_gnt), .data_rvalid_i(d_rvalid), .data_we_o(d_we), .data_be_o(d_be),
        .data_addr_o(d_addr), .data_wdata_o(d_wdata), .data_rdata_i(d_rdata), .data_rdata_intg_i('0),
        .data_err_i(1'b0),
        .irq_software_i(1'b0), .irq_timer_i(1'b0), .irq_external_i(1'b0), .irq_fast_i('0), .irq_nm_i(1'b0),
        .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .debug_req_i(1'b0),
        .fetch_enable_i(ibex_pkg::IbexMuBiOn), .scan_rst_ni(1'b1)
    );
    assign retired = top.u_ibex_core.perf_instr_ret_wb;
    assign pc = top.u_ibex_core.pc_wb;
endmodule
