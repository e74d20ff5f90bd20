/* SPDX-License-Identifier: Apache-2.0 */
/* A core that Verilator has translated, with two memories and a port: runs a program to its end.
 *
 *     machine PROGRAM.elf FLASH BYTES RAM BYTES WAIT FETCH [MARK]
 *
 * Flash and RAM are given by origin and bytes. RAM answers one cycle after it was asked. So does flash if WAIT is 0;
 * else that takes WAIT cycles more, but where the FETCH bytes of the fetch before are asked for. Every bus keeps those
 * bytes for itself. The port is the other half of board/mapped.c.
 * marks.txt gets a line each time that the instruction at address MARK retires: cycles, and instructions retired. */
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vcore.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Memory {
    uint32_t origin;
    std::vector<unsigned char> bytes;
    bool has(uint32_t at) const { return at - origin < bytes.size(); }
    void *at(uint32_t address) { return &bytes[(address - origin) & ~3u]; }
};

/* One side of a bus: what was asked, and in how many cycles the answer comes. */
struct Bus {
    bool busy = false;
    unsigned left = 0;
    uint32_t answer = 0, fetched = 1; /* fetched: the block that flash brought last; no block has this number */
};

[[noreturn]] void fail(const char *what, uint32_t at) {
    std::fprintf(stderr, "%s 0x%08" PRIx32 "\n", what, at);
    std::exit(97);
}

FILE *opened(const char *name, const char *mode) {
    FILE *const file = std::fopen(name, mode);
    if (file == nullptr) {
        std::perror(name);
        std::exit(97);
    }
    return file;
}

/* Loads a program for a 32-bit little-endian machine; returns where it begins. */
uint32_t load(const char *name, Memory *memories, int count) {
    FILE *const file = opened(name, "rb");
    uint32_t head[13], segment[8];
    if (std::fread(head, sizeof head, 1, file) != 1) fail("no program", 0);
    for (unsigned i = 0; i < (head[11] & 0xFFFF); ++i) { /* e_phnum: the upper half of the word with e_phentsize */
        std::fseek(file, long(head[7] + i * sizeof segment), SEEK_SET);
        if (std::fread(segment, sizeof segment, 1, file) != 1) fail("program header", i);
        const uint32_t offset = segment[1], to = segment[3], size = segment[4];
        if (segment[0] != 1 || size == 0) continue; /* PT_LOAD */
        bool placed = false;
        for (int m = 0; m < count && !placed; ++m) {
            if (!memories[m].has(to) || memories[m].bytes.size() - (to - memories[m].origin) < size) continue;
            std::fseek(file, long(offset), SEEK_SET);
            placed = std::fread(&memories[m].bytes[to - memories[m].origin], size, 1, file) == 1;
        }
        if (!placed) fail("no memory for the program at", to);
    }
    std::fclose(file);
    return head[6];
}

uint32_t number(const char *text) { return uint32_t(std::strtoul(text, nullptr, 0)); }

} // namespace

int main(int argc, char **argv) {
    if (argc < 8) fail("arguments are missing:", uint32_t(argc));
    Memory memories[] = {{number(argv[2]), std::vector<unsigned char>(number(argv[3]))},
                         {number(argv[4]), std::vector<unsigned char>(number(argv[5]))}};
    const unsigned wait = number(argv[6]), fetch = number(argv[7]);
    const uint32_t mark = argc > 8 ? number(argv[8]) : 0;
    const uint32_t entry = load(argv[1], memories, 2);
    if (memories[0].has(entry - 128)) { /* where Ibex begins: jal x0, 128 */
        const uint32_t jump = 0x0800006F;
        std::memcpy(memories[0].at(entry - 128), &jump, 4);
    }
    FILE *const marks = mark ? opened("marks.txt", "w") : nullptr;
    FILE *files[3] = {nullptr, nullptr, nullptr};
    static const char *const names[3] = {"inputs.bin", "outputs.bin", "ticks.bin"};
    Vcore core;
    Bus code, data;
    uint64_t cycles = 0, instructions = 0;

    /* What a bus reads or writes; an access of the port is one of its registers'. */
    const auto ask = [&](Bus &bus, uint32_t at, unsigned write, uint32_t value) {
        bus.busy = true;
        bus.left = 0;
        for (Memory &memory : memories) {
            if (!memory.has(at)) continue;
            uint32_t word;
            std::memcpy(&word, memory.at(at), 4);
            bus.answer = word;
            for (unsigned i = 0; i < 4; ++i) {
                if (write >> i & 1) word = (word & ~(0xFFu << 8 * i)) | (value & 0xFFu << 8 * i);
            }
            if (write) std::memcpy(memory.at(at), &word, 4);
            if (wait && &memory == memories && at / fetch != bus.fetched) {
                bus.left = wait;
                bus.fetched = at / fetch;
            }
            return;
        }
        const uint32_t which = (at & ~0xF0000000u) >> 2;
        if (&bus != &data || (at & 0xF0000000u) != 0xF0000000u || which > 4) fail("no memory at", at);
        if (which == 4) std::exit(int(value & 0xFF));
        if (which == 3) {
            std::fputc(int(value & 0xFF), stderr);
            return;
        }
        if (files[which] == nullptr) files[which] = opened(names[which], which == 0 ? "rb" : "wb");
        if (write) {
            std::fputc(int(value & 0xFF), files[which]);
        } else {
            bus.answer = uint32_t(std::fgetc(files[which]));
        }
    };
    /* A bus takes the next request in the cycle in which it answers the one before. */
    const auto ready = [](const Bus &bus) { return !bus.busy || bus.left == 0; };

    core.entry = entry;
    core.reset = 1;
    for (;; ++cycles) {
        core.clock = 0;
        core.i_gnt = ready(code);
        core.i_rvalid = code.busy && code.left == 0;
        core.i_rdata = code.answer;
        core.d_gnt = ready(data);
        core.d_rvalid = data.busy && data.left == 0;
        core.d_rdata = data.answer;
        core.eval();
        if (core.retired) {
            if (mark && core.pc == mark) std::fprintf(marks, "%" PRIu64 " %" PRIu64 "\n", cycles, instructions);
            ++instructions;
        }
        const bool code_ready = core.i_gnt, data_ready = core.d_gnt;
        if (!code_ready) --code.left;
        else code.busy = false;
        if (!data_ready) --data.left;
        else data.busy = false;
        if (!core.reset) {
            if (code_ready && core.i_req) ask(code, core.i_addr, 0, 0);
            if (data_ready && core.d_req) ask(data, core.d_addr, core.d_we ? core.d_be : 0, core.d_wdata);
        }
        core.clock = 1;
        core.eval();
        if (cycles == 8) core.reset = 0;
    }
}
