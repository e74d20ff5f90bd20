// SPDX-License-Identifier: Apache-2.0
// VexRiscv's Wishbone buses as buses of requests and answers. A burst asks for its next word when it gets one.
module wishbone (
    input clock, reset,
    input cyc, stb, we, input [2:0] cti, input [29:0] adr, output ack,
    output req, output [31:0] addr, input gnt, rvalid
);
    reg waiting;
    wire more = rvalid && cti == 3'b010;
    assign ack = waiting && rvalid;
    assign req = cyc && stb && (!waiting || more);
    assign addr = {waiting ? adr + 30'd1 : adr, 2'b00};
    always @(posedge clock) waiting <= !reset && ((req && gnt) || (waiting && !rvalid));
endmodule

module core (
    input clock, reset, input [31:0] entry,
    output i_req, output [31:0] i_addr, input i_gnt, i_rvalid, input [31:0] i_rdata,
    output d_req, d_we, output [3:0] d_be, output [31:0] d_addr, d_wdata, input d_gnt, d_rvalid, input [31:0] d_rdata,
    output retired, output [31:0] pc
);
    wire i_cyc, i_stb, i_we, i_ack, d_cyc, d_stb, d_ack;
    wire [2:0] i_cti, d_cti;
    wire [29:0] i_adr, d_adr;
    wishbone code (clock, reset, i_cyc, i_stb, i_we, i_cti, i_adr, i_ack, i_req, i_addr, i_gnt, i_rvalid);
    wishbone data (clock, reset, d_cyc, d_stb, d_we, d_cti, d_adr, d_ack, d_req, d_addr, d_gnt, d_rvalid);
    VexRiscv cpu (
        .externalResetVector(entry), .timerInterrupt(1'b0), .softwareInterrupt(1'b0), .externalInterruptArray(32'd0),
        .iBusWishbone_CYC(i_cyc), .iBusWishbone_STB(i_stb), .iBusWishbone_ACK(i_ack), .iBusWishbone_WE(i_we),
        .iBusWishbone_ADR(i_adr), .iBusWishbone_DAT_MISO(i_rdata), .iBusWishbone_ERR(1'b0), .iBusWishbone_CTI(i_cti),
        .dBusWishbone_CYC(d_cyc), .dBusWishbone_STB(d_stb), .dBusWishbone_ACK(d_ack), .dBusWishbone_WE(d_we),
        .dBusWishbone_ADR(d_adr), .dBusWishbone_DAT_MISO(d_rdata), .dBusWishbone_DAT_MOSI(d_wdata),
        .dBusWishbone_SEL(d_be), .dBusWishbone_ERR(1'b0), .dBusWishbone_CTI(d_cti),
        .clk(clock), .reset(reset)
    );
    assign retired = cpu.lastStageIsFiring;
    assign pc = cpu.lastStagePc;
endmodule
