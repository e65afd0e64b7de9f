# Sources are found by folder: a new file needs no edit here. Variables to set on the command line:
#   BUILD=build/other   where everything is written        CC=clang      the compiler
#   SANITIZE=address,undefined   sanitizers                BARE=1        as if MPI, OpenBLAS, hwloc and cmocka were absent
#   WERROR=             warnings do not stop the build     JOBS=4        compilers at a time under check and demo
#   OPTIMIZE=-O0   how far the compiler optimizes (-O3)
#   PREFIX=/usr/local   where make install puts files      DESTDIR=      a folder before it, for packagers
#   CUDA=0              as if CUDA were absent             CUDA_HOME=/usr/local/cuda   where it is
#   CUDA_ARCHS=90       the GPUs to compile for: compute capabilities without the point (80 90 100); empty: PTX alone,
#                       in less than half the time (the default of make check)

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
SANITIZE ?=
BARE ?=
COMMA := ,
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
WERROR ?= -Werror
OPTIMIZE ?= -O3
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
CUDA ?= 1
CUDA_HOME ?= /usr/local/cuda
CUDA_ARCHS ?= 80 90 100
OBJ := $(BUILD)/obj

# ---- what this machine has ----

# $(call probe,package): yes if pkg-config knows the package. GLPK has no pkg-config file: its header is looked for.
probe = $(if $(BARE),,$(shell pkg-config --exists $(1) 2>/dev/null && echo yes))
flags = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(1) 2>/dev/null))
libs = $(shell pkg-config --libs $(1) 2>/dev/null)

HAVE_CJSON := $(shell pkg-config --exists libcjson 2>/dev/null && echo yes)
HAVE_GLPK := $(shell echo '\#include <glpk.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
HAVE_MPI := $(call probe,ompi-c)
HAVE_BLAS := $(call probe,openblas)
HAVE_HWLOC := $(call probe,hwloc)
HAVE_URING := $(call probe,liburing)
HAVE_CMOCKA := $(call probe,cmocka)
HAVE_CXX := $(if $(BARE),,$(shell command -v g++))

# CUDA, cuDNN and NCCL have no pkg-config files: their compiler and headers are looked for, all or none.
CUDA_NEEDS := bin/nvcc include/cuda_runtime_api.h include/cublasLt.h include/cudnn.h include/nccl.h
CUDA_MISSING := $(filter-out $(patsubst $(CUDA_HOME)/%,%,$(wildcard $(CUDA_NEEDS:%=$(CUDA_HOME)/%))),$(CUDA_NEEDS))
WHY_NOT_CUDA := $(if $(BARE),BARE=1,$(if $(filter 0,$(CUDA)),CUDA=0,$(if $(CUDA_MISSING),\
	$(CUDA_HOME) lacks $(CUDA_MISSING),$(if $(shell command -v g++),,no g++: apt-get install g++))))

WHY_NOT_PLAN := $(strip $(if $(HAVE_CJSON),,no cJSON: apt-get install libcjson-dev pkg-config;) \
	$(if $(HAVE_GLPK),,no GLPK: apt-get install libglpk-dev;))
WHY_NOT_RUN := $(strip $(if $(HAVE_MPI),,no MPI: apt-get install libopenmpi-dev;) \
	$(if $(HAVE_BLAS),,no OpenBLAS: apt-get install libopenblas-pthread-dev;))
WHY_NOT_PROFILE := $(strip $(WHY_NOT_RUN) $(if $(HAVE_HWLOC),,no hwloc: apt-get install libhwloc-dev;))
WHY_NOT_TESTS := $(strip $(WHY_NOT_PROFILE) $(if $(HAVE_CMOCKA),,no cmocka: apt-get install libcmocka-dev;) \
	$(if $(HAVE_CXX),,no g++: apt-get install g++;))

# ---- flags ----

# -ffp-contract=off: no fused multiply-add behind the source's back, so plans and losses agree across machines.
CFLAGS := -std=c11 -D_GNU_SOURCE $(OPTIMIZE) -g -ffp-contract=off -fno-math-errno \
	-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef $(WERROR) -I.
# The second: libraries that wait call this program's sched_yield (runtime/comm/patience.c).
LDFLAGS := -Wl,--as-needed -Wl,--export-dynamic-symbol=sched_yield
ifneq ($(SANITIZE),)
CFLAGS += -O1 -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SANITIZE) -Wl,--export-dynamic-symbol=dlclose
endif
KEEP_SOURCE := tests/support/keep_libraries.c
KEEP_LIBRARIES := $(if $(findstring address,$(SANITIZE)),$(KEEP_SOURCE:%.c=$(OBJ)/%.o))
PLAN_CFLAGS := $(call flags,libcjson)
RUN_CFLAGS := $(PLAN_CFLAGS) $(if $(HAVE_MPI),$(call flags,ompi-c)) $(if $(HAVE_BLAS),$(call flags,openblas)) \
	$(if $(HAVE_HWLOC),$(call flags,hwloc)) $(if $(HAVE_URING),$(call flags,liburing))
TEST_CFLAGS := $(RUN_CFLAGS) $(if $(HAVE_CMOCKA),$(call flags,cmocka))
# GLPK is GPL: galplan alone calls it (LICENSE), and tests, which are not distributed. planner/solve/late_glpk.c loads
# it.
BASE_LIBS := $(call libs,libcjson) -lm
PLAN_LIBS := $(BASE_LIBS) -ldl
RUN_LIBS := $(BASE_LIBS) $(if $(HAVE_MPI),$(call libs,ompi-c)) $(if $(HAVE_BLAS),$(call libs,openblas)) \
	$(if $(HAVE_HWLOC),$(call libs,hwloc)) $(if $(HAVE_URING),$(call libs,liburing))
TEST_LIBS := $(RUN_LIBS) -ldl $(if $(HAVE_CMOCKA),$(call libs,cmocka))

# nvcc compiles kernels alone, and as C sees them: no exceptions, no objects to construct, so that gcc can link them.
# One PTX, that of the oldest architecture, becomes code for each, and goes along for devices that are newer still; but
# what asks which one it is on (CUDA_BY_ARCH) is compiled for each.
NVCC := $(CUDA_HOME)/bin/nvcc
CUDA_CFLAGS := $(if $(WHY_NOT_CUDA),,-isystem $(CUDA_HOME)/include)
# cuBLASLt is not among them: runtime/ops/cuda/late_cublaslt.c loads it when it is called.
CUDA_LIBS := $(if $(WHY_NOT_CUDA),,-L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcudart -lcudnn -lnccl -ldl)
CUDA_PTX := $(or $(firstword $(CUDA_ARCHS)),80)
CUDA_PTX_LAST := $(or $(lastword $(CUDA_ARCHS)),80)
CUDA_SUFFIX := $(or $(subst $(SPACE),-,$(strip $(CUDA_ARCHS))),ptx)
CUDA_BY_ARCH := runtime/ops/cuda/flash_backward.cu
NVCC_ONE_PTX := -gencode arch=compute_$(CUDA_PTX),code=[$(subst $(SPACE),$(COMMA),$(strip $(CUDA_ARCHS:%=sm_%) compute_$(CUDA_PTX)))]
NVCC_BY_ARCH := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(CUDA_PTX_LAST),code=compute_$(CUDA_PTX_LAST)
nvcc_for = $(NVCC) $(NVCC_FLAGS) $(if $(filter $(1),$(CUDA_BY_ARCH)),$(NVCC_BY_ARCH),$(NVCC_ONE_PTX))
NVCC_FLAGS := -std=c++17 -O3 -lineinfo -ccbin g++ -I. -Xcompiler -fno-exceptions$(COMMA)-fno-rtti \
	-Xcompiler -fno-threadsafe-statics -Xcompiler -Wall$(COMMA)-Wextra \
	$(if $(WERROR),-Werror all-warnings -Xcompiler -Werror)

# ---- sources ----

PLAN_SOURCES := $(wildcard schemas/*.c schemas/base/*.c schemas/catalogue/*.c runtime/program/*.c runtime/program/*/*.c \
	costmodel/*.c) $(filter-out planner/cli/%,$(wildcard planner/*/*.c))
HOST_SOURCES := $(wildcard runtime/ops/host/*.c)
HOST_ONCE := $(filter %_any.c,$(HOST_SOURCES))
HOST_TWICE := $(filter-out %_any.c,$(HOST_SOURCES))
RUN_SOURCES := $(wildcard runtime/*.c runtime/engine/*.c runtime/launch/*.c runtime/device/*.c runtime/ops/*.c runtime/comm/*.c runtime/train/*.c profiler/*.c)
# One of two files binds ranks to cores.
RUN_SOURCES := $(filter-out runtime/device/binding_$(if $(HAVE_HWLOC),none,hwloc).c,$(RUN_SOURCES))
# One of two files knows io_uring, or that there is none.
RUN_SOURCES := $(filter-out runtime/device/storage_$(if $(HAVE_URING),without_uring,uring).c,$(RUN_SOURCES))
# What sees CUDA: whole folders, and files by name. Without it one file stands in, which says so.
CUDA_C_SOURCES := $(wildcard runtime/backend_cuda.c runtime/device/cuda/*.c runtime/ops/cuda/*.c runtime/comm/nccl*.c \
	profiler/cuda/*.c)
CUDA_CU_SOURCES := $(wildcard runtime/device/cuda/*.cu runtime/ops/cuda/*.cu profiler/cuda/*.cu)
RUN_SOURCES := $(filter-out $(CUDA_C_SOURCES) $(if $(WHY_NOT_CUDA),,%_without_cuda.c),$(RUN_SOURCES))
ifneq ($(WHY_NOT_CUDA),)
CUDA_C_SOURCES :=
CUDA_CU_SOURCES :=
endif
PLAN_CLI := $(wildcard planner/cli/*.c)
RUN_CLI := $(wildcard runtime/cli/*.c)
PROFILE_CLI := $(wildcard profiler/cli/*.c)

# Tests that include CUDA's headers have these names; a .cu among them is host code that nvcc compiles.
CUDA_TESTS := $(wildcard tests/*/test_cuda*.c tests/*/test_cudnn*.c tests/*/test_nccl*.c tests/*/cuda*.c tests/*/nccl*.c)
# Programs that need a GPU to run (make check-gpu, make bench-gpu); make tests builds them where CUDA is. They are linked
# without the doubles of the libraries. Some are the tests of emulated kernels, on the GPU instead: the same objects.
GPU_C := $(if $(WHY_NOT_CUDA),,$(wildcard tests/gpu/*.c))
CUDA_CU_TESTS := $(if $(WHY_NOT_CUDA),,$(wildcard tests/*/test_cuda*.cu))
# Kernels as C++ on the host, for tests/unit/test_emulated_*.c: no CUDA is needed, nor used. Not under ThreadSanitizer,
# which does not follow threads that take turns on stacks of their own.
EMULATED_SOURCES := $(addprefix runtime/ops/cuda/,activation.cu cross_entropy.cu embedding.cu flash_backward.cu \
	flash_forward.cu gemm_bias.cu norm.cu norm_parts.cu norm_residual.cu optimizer.cu pointwise.cu residual.cu ring.cu \
	rotary.cu rows.cu)
EMULATED_C := $(addprefix runtime/ops/cuda/,flash_call.c gemm_bias_call.c step.c workspace.c)
EMULATED_TESTS := $(wildcard tests/unit/test_emulated_*.c)
# Whole plans with these kernels: the main of tests/numerics/equivalence.c.
EMULATED_PLANS := tests/numerics/equivalence_emulated.c
# Below tests/, a file with a main is a program; *_count.c in support are preloaded into the ranks; the rest is shared.
PRELOAD_SOURCES := $(wildcard tests/support/*_count.c)
TEST_ALL := $(filter-out $(PRELOAD_SOURCES) $(KEEP_SOURCE) $(EMULATED_PLANS) $(if $(WHY_NOT_CUDA),$(CUDA_TESTS)) \
	$(if $(findstring thread,$(SANITIZE)),$(EMULATED_TESTS)) tests/fuzz/% tests/gpu/%,$(wildcard tests/*/*.c tests/*/*/*.c))
with_main = $(if $(1),$(shell grep -l '^int main\>' $(1)))
TEST_SOURCES := $(call with_main,$(TEST_ALL))
SUPPORT_SOURCES := $(filter-out $(TEST_SOURCES),$(TEST_ALL))

# tests/fuzz/fuzz_*.c are programs whose main is libFuzzer's, or that of replay.c. FUZZ_MAINS are the programs' own, under
# other names.
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
FUZZING := $(findstring fuzzer,$(SANITIZE))
FUZZ_SHARED := tests/fuzz/input.c tests/fuzz/checkpoint.c $(if $(FUZZING),,tests/fuzz/replay.c)
FUZZ_JSON := json model cluster profile plan problem framework constants galvatron_profile galvatron_plan galvatron_files index
FUZZ_MAINS := $(addprefix $(OBJ)/tests/fuzz/main_,galplan.o galrun.o galplan_profile.o)

# The catalogue's documents are linked in: galplan is one file.
CATALOGUE_FILES := $(wildcard schemas/catalogue/*/*.json schemas/catalogue/*/*.tsv schemas/catalogue/*/*/*.json schemas/catalogue/*/*/*.tsv)
CATALOGUE := $(if $(CATALOGUE_FILES),$(BUILD)/catalogue.c)

PLAN_OBJECTS := $(PLAN_SOURCES:%.c=$(OBJ)/%.o) $(CATALOGUE:$(BUILD)/%.c=$(OBJ)/%.o)
HOST_OBJECTS := $(HOST_TWICE:%.c=$(OBJ)/%.fp32.o) $(HOST_TWICE:%.c=$(OBJ)/%.fp64.o) $(HOST_ONCE:%.c=$(OBJ)/%.o)
CUDA_OBJECTS := $(CUDA_C_SOURCES:%.c=$(OBJ)/%.o) $(CUDA_CU_SOURCES:%.cu=$(OBJ)/%.$(CUDA_SUFFIX).o)
RUN_OBJECTS := $(RUN_SOURCES:%.c=$(OBJ)/%.o) $(HOST_OBJECTS) $(CUDA_OBJECTS)
CLI_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(PLAN_CLI) $(RUN_CLI) $(PROFILE_CLI))
SUPPORT_OBJECTS := $(SUPPORT_SOURCES:%.c=$(OBJ)/%.o)
TEST_OBJECTS := $(TEST_SOURCES:%.c=$(OBJ)/%.o)
FUZZ_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/fuzz/*.c))
EMULATED_OBJECTS := $(EMULATED_SOURCES:%.cu=$(OBJ)/emulated/%.o) $(EMULATED_C:%.c=$(OBJ)/emulated/%.o)
CUDA_TEST_OBJECTS := $(CUDA_CU_TESTS:%.cu=$(OBJ)/%.$(CUDA_SUFFIX).o)
GPU_OBJECTS := $(GPU_C:%.c=$(OBJ)/%.o)
GPU_SUPPORT_OBJECTS := $(filter-out $(CUDA_TESTS:%.c=$(OBJ)/%.o) %/emulated/device.o %/emulated/machine.o,$(SUPPORT_OBJECTS))
OBJECTS := $(PLAN_OBJECTS) $(RUN_OBJECTS) $(CLI_OBJECTS) $(SUPPORT_OBJECTS) $(TEST_OBJECTS) $(FUZZ_OBJECTS) \
	$(CUDA_TEST_OBJECTS) $(EMULATED_OBJECTS) $(EMULATED_PLANS:%.c=$(OBJ)/%.o) $(GPU_OBJECTS)

# ---- products ----

LIB_PLAN := $(BUILD)/libgalplan.a
LIB_RUN := $(BUILD)/libgalrun.a
LIB_SUPPORT := $(BUILD)/libtestsupport.a
LIB_GPU_SUPPORT := $(BUILD)/libgpusupport.a
PROGRAMS := $(if $(WHY_NOT_PLAN),,$(LIB_PLAN) $(if $(call with_main,$(PLAN_CLI)),$(BUILD)/galplan)) \
	$(if $(WHY_NOT_RUN),,$(LIB_RUN) $(if $(call with_main,$(RUN_CLI)),$(BUILD)/galrun)) \
	$(if $(WHY_NOT_PROFILE),,$(if $(call with_main,$(PROFILE_CLI)),$(BUILD)/galplan-profile))
ifneq ($(WHY_NOT_PROFILE),)
# Files of the profiler that need hwloc cannot be compiled: galrun does without all of profiler/.
RUN_OBJECTS := $(filter-out $(OBJ)/profiler/%,$(RUN_OBJECTS))
endif
FUZZ_PROGRAMS := $(FUZZ_SOURCES:%.c=$(BUILD)/%)
TEST_PROGRAMS := $(if $(WHY_NOT_TESTS),,$(TEST_SOURCES:%.c=$(BUILD)/%) $(CUDA_CU_TESTS:%.cu=$(BUILD)/%) $(FUZZ_PROGRAMS) \
	$(if $(findstring thread,$(SANITIZE)),,$(EMULATED_PLANS:%.c=$(BUILD)/%)))
GPU_MAINS := $(patsubst %.c,$(BUILD)/%,$(call with_main,$(GPU_C)))
GPU_PROGRAMS := $(if $(WHY_NOT_TESTS)$(WHY_NOT_CUDA),,$(GPU_MAINS) \
	$(addprefix $(BUILD)/tests/gpu/,kernels norm_parts norm_residual rows ring attention attention_library equivalence))
PRELOADS := $(if $(HAVE_MPI),$(PRELOAD_SOURCES:tests/support/%.c=$(BUILD)/tests/lib%.so))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: FORCE

## all: build what this machine allows and say what is left out (the default)
.PHONY: all
all: $(PROGRAMS)
	@$(if $(WHY_NOT_PLAN),echo 'left out: galplan ($(WHY_NOT_PLAN))' | sed 's/;\(.\)$$/\1/',:)
	@$(if $(WHY_NOT_RUN),echo 'left out: galrun ($(WHY_NOT_RUN))' | sed 's/;\(.\)$$/\1/',:)
	@$(if $(WHY_NOT_PROFILE),echo 'left out: galplan-profile ($(WHY_NOT_PROFILE))' | sed 's/;\(.\)$$/\1/',:)
	@$(if $(WHY_NOT_CUDA),echo 'left out: CUDA ($(WHY_NOT_CUDA))',:)

## tests: build the test programs, without running them
.PHONY: tests
tests: $(TEST_PROGRAMS) $(GPU_PROGRAMS) $(PRELOADS)
	@$(if $(WHY_NOT_TESTS),echo 'left out: tests ($(WHY_NOT_TESTS))' | sed 's/;\(.\)$$/\1/',:)

$(BUILD)/galplan: $(PLAN_CLI:%.c=$(OBJ)/%.o) $(LIB_PLAN)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(PLAN_LIBS)

$(BUILD)/galrun: $(RUN_CLI:%.c=$(OBJ)/%.o) $(KEEP_LIBRARIES) $(LIB_RUN) $(LIB_PLAN)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(RUN_LIBS) $(CUDA_LIBS)

$(BUILD)/galplan-profile: $(PROFILE_CLI:%.c=$(OBJ)/%.o) $(KEEP_LIBRARIES) $(LIB_RUN) $(LIB_PLAN)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(RUN_LIBS) $(CUDA_LIBS)

$(BUILD)/tests/%: $(OBJ)/tests/%.o $(KEEP_LIBRARIES) $(LIB_SUPPORT) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)

$(EMULATED_TESTS:%.c=$(BUILD)/%): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(EMULATED_OBJECTS) $(KEEP_LIBRARIES) $(LIB_SUPPORT) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)

$(EMULATED_PLANS:%.c=$(BUILD)/%): $(BUILD)/%: $(OBJ)/%.o $(OBJ)/tests/numerics/equivalence.o $(EMULATED_OBJECTS) $(KEEP_LIBRARIES) $(LIB_SUPPORT) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)

$(CUDA_CU_TESTS:%.cu=$(BUILD)/%): $(BUILD)/tests/%: $(OBJ)/tests/%.$(CUDA_SUFFIX).o $(KEEP_LIBRARIES) $(LIB_SUPPORT) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)

# The emulated tests, and who carries out their kernels on the GPU.
$(BUILD)/tests/gpu/kernels: $(OBJ)/tests/unit/test_emulated_kernels.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/norm_parts: $(OBJ)/tests/unit/test_emulated_norm_parts.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/norm_residual: $(OBJ)/tests/unit/test_emulated_norm_residual.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/ring: $(OBJ)/tests/unit/test_emulated_ring.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/rows: $(OBJ)/tests/unit/test_emulated_rows.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/attention: $(OBJ)/tests/unit/test_emulated_attention.o $(OBJ)/tests/gpu/machine.o
$(BUILD)/tests/gpu/attention_library: $(OBJ)/tests/unit/test_emulated_attention.o $(OBJ)/tests/gpu/machine.o \
	$(OBJ)/tests/gpu/attention_library.o
$(BUILD)/tests/gpu/equivalence: $(OBJ)/tests/numerics/equivalence.o $(OBJ)/tests/gpu/equivalence_cuda.o
$(BUILD)/tests/gpu/products: $(OBJ)/tests/gpu/machine.o
$(GPU_MAINS): $(BUILD)/%: $(OBJ)/%.o
$(GPU_PROGRAMS): $(LIB_GPU_SUPPORT) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)

$(BUILD)/tests/fuzz/%: $(OBJ)/tests/fuzz/%.o $(FUZZ_SHARED:%.c=$(OBJ)/%.o) $(KEEP_LIBRARIES) $(LIB_RUN) $(LIB_PLAN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(if $(FUZZING),-fsanitize=fuzzer) $(addprefix -Wl$(COMMA)--wrap=,$(FUZZ_WRAPPED)) -o $@ \
		$(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) $(CUDA_LIBS)
FUZZ_WRAPPED := gal_assert_failed gal_options_run gal_blas_choose_kernels
$(BUILD)/tests/fuzz/fuzz_options: $(FUZZ_MAINS) $(filter-out %/cli/galplan.o %/cli/galrun.o %/cli/main.o,$(CLI_OBJECTS))
$(FUZZ_JSON:%=$(BUILD)/tests/fuzz/fuzz_%): $(if $(FUZZING),$(OBJ)/tests/fuzz/mutate_json.o)

$(OBJ)/tests/fuzz/main_galplan.o: $(OBJ)/planner/cli/galplan.o
$(OBJ)/tests/fuzz/main_galrun.o: $(OBJ)/runtime/cli/galrun.o
$(OBJ)/tests/fuzz/main_galplan_profile.o: $(OBJ)/profiler/cli/main.o
$(FUZZ_MAINS):
	@mkdir -p $(@D)
	objcopy --redefine-sym main=gal_fuzz_$(basename $(@F)) $< $@

$(BUILD)/tests/lib%.so: tests/support/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS)) $(RUN_CFLAGS) -fPIC -shared -o $@ $< $(call libs,ompi-c)

$(LIB_PLAN): $(PLAN_OBJECTS) $(BUILD)/sources
$(LIB_RUN): $(RUN_OBJECTS) $(BUILD)/sources
$(LIB_SUPPORT): $(SUPPORT_OBJECTS) $(BUILD)/sources
$(LIB_GPU_SUPPORT): $(GPU_SUPPORT_OBJECTS) $(BUILD)/sources
$(BUILD)/%.a:
	@rm -f $@
	ar rcs $@ $(filter %.o,$^)

# Flags by folder. The pure folders see no header of MPI, OpenBLAS or hwloc by these.
$(OBJ)/schemas/%.o $(OBJ)/runtime/program/%.o $(OBJ)/costmodel/%.o $(OBJ)/planner/%.o $(OBJ)/catalogue.o: FOLDER_CFLAGS = $(PLAN_CFLAGS)
$(OBJ)/tests/%.o: FOLDER_CFLAGS = $(TEST_CFLAGS)
$(CUDA_OBJECTS): FOLDER_CFLAGS = $(RUN_CFLAGS) $(CUDA_CFLAGS)
$(CUDA_TESTS:%.c=$(OBJ)/%.o) $(GPU_OBJECTS): FOLDER_CFLAGS = $(TEST_CFLAGS) $(CUDA_CFLAGS)
FOLDER_CFLAGS = $(RUN_CFLAGS)

COMPILE = $(CC) $(CFLAGS) $(FOLDER_CFLAGS) -MMD -MP -c -o $@ $<
# What computes for long is in the libraries; benchmarks have loops of their own.
$(filter-out $(OBJ)/tests/bench/%,$(TEST_OBJECTS)): COMPILE += -O1
$(OBJ)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
# -g1: functions and lines, without the types of every template, which took a third of the compiler's time.
$(OBJ)/emulated/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	g++ -x c++ -std=c++17 -O1 -g1 -ffp-contract=off -fno-exceptions -fno-rtti -fno-threadsafe-statics \
		-fno-strict-aliasing -Wall -Wextra -Wno-unknown-pragmas $(WERROR) $(filter -fsanitize% -fno-sanitize%,$(CFLAGS)) \
		-I. -isystem tests/support/emulated -MMD -MP -c -o $@ $<
$(OBJ)/emulated/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
# Kernels compiled for other architectures are other files, so that make and make check do not undo each other's.
$(OBJ)/%.$(CUDA_SUFFIX).o: %.cu $(BUILD)/flags_cuda
	@mkdir -p $(@D)
	$(call nvcc_for,$<) -MMD -MP -c -o $@ $<
$(OBJ)/%.fp32.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE) -DGAL_REAL_FP64=0
$(OBJ)/%.fp64.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE) -DGAL_REAL_FP64=1
$(OBJ)/catalogue.o: $(BUILD)/catalogue.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
$(BUILD)/catalogue.c: schemas/catalogue/embed.sh $(CATALOGUE_FILES)
	@mkdir -p $(@D)
	sh schemas/catalogue/embed.sh schemas/catalogue > $@

# These files change only when the compiler and its flags do, or the list of sources: what depends on them is then
# made again.
FINGERPRINT_FLAGS := $(CC) $(CFLAGS) $(TEST_CFLAGS)
FINGERPRINT_CUDA := $(NVCC) $(NVCC_FLAGS) $(CUDA_BY_ARCH)
FINGERPRINT_SOURCES := $(PLAN_OBJECTS) $(RUN_OBJECTS) $(SUPPORT_OBJECTS)
$(BUILD)/flags: FINGERPRINT = $(FINGERPRINT_FLAGS)
$(BUILD)/flags_cuda: FINGERPRINT = $(FINGERPRINT_CUDA)
$(BUILD)/sources: FINGERPRINT = $(FINGERPRINT_SOURCES)
$(BUILD)/flags $(BUILD)/flags_cuda $(BUILD)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(FINGERPRINT)' | cmp -s - $@ || echo '$(FINGERPRINT)' > $@

# ---- tasks ----

# Compilers at a time in a make below this one, unless this one was given -j itself.
J = $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))
RUN_CHECKS = BUILD=$(BUILD) bash tests/support/run_checks.sh
# $(call check_code,BUILD): the checks need no GPU, so in a folder without kernels they compile these to PTX alone, with
# every warning an error. Machine code of each architecture is built by make all and by check-all, which runs lint-cuda
# too. A folder that has machine code keeps it up to date, and CUDA_ARCHS from the command line holds.
CUDA_FIRST := $(firstword $(CUDA_CU_SOURCES:%.cu=%.$(CUDA_SUFFIX).o))
check_code = $(if $(filter file,$(origin CUDA_ARCHS)),$(if $(wildcard $(1)/obj/$(CUDA_FIRST)),,CUDA_ARCHS=))

## setup: install the Debian packages that make check needs (or print the command)
.PHONY: setup setup-demo setup-demo-digits
setup:
	@sh tests/support/setup.sh check

# Of what a demo shows, packages and compilers are the least: their output goes to files.
QUIETLY = sh tests/support/quiet.sh

setup-demo:
	@$(QUIETLY) 'packages' $(BUILD)/demo-setup.log sh tests/support/setup.sh demo

setup-demo-digits:
	@$(QUIETLY) 'packages' $(BUILD)/demo-setup.log sh tests/support/setup.sh demo-digits

.PHONY: build-demo
build-demo:
	@$(QUIETLY) 'build' $(BUILD)/demo-build.log $(MAKE) $(J) all

## demo: profile this machine, search a plan, train a small GPT on a real text by it (5 minutes)
.PHONY: demo
demo: setup-demo
	@$(MAKE) --no-print-directory build-demo
	@BUILD=$(BUILD) bash tests/demo/demo.sh $(BUILD)

## demo-digits: a small ViT learns handwritten digits on 2 ranks, at least 95 % of the held-out ones (2 minutes)
.PHONY: demo-digits
demo-digits: setup-demo-digits
	@$(MAKE) --no-print-directory build-demo
	@BUILD=$(BUILD) sh tests/demo/digits.sh $(BUILD)

## convergence: the same under DP, 1D, 2D, 2.5D, 3D TP and a ring from one seed: losses within 1e-4 (6 minutes)
.PHONY: convergence
convergence: setup-demo-digits
	@$(MAKE) --no-print-directory build-demo
	@BUILD=$(BUILD) sh tests/demo/convergence.sh $(BUILD)

## demo-bert: a small BERT learns to fill masked bytes of a real text on 2 ranks (4 minutes)
.PHONY: demo-bert
demo-bert: setup-demo
	@$(MAKE) --no-print-directory build-demo
	@BUILD=$(BUILD) sh tests/demo/bert.sh $(BUILD)

## demo-t5: a small T5, cut in two stages, learns to copy text (3 minutes)
.PHONY: demo-t5
demo-t5: setup-demo
	@$(MAKE) --no-print-directory build-demo
	@BUILD=$(BUILD) bash tests/demo/t5.sh $(BUILD)

## check: all that must be green at every commit; the last line is N passed, N failed, N skipped
.PHONY: check
check: setup
	@$(MAKE) $(J) $(call check_code,$(BUILD)) all tests
	@PLANS=100 $(RUN_CHECKS) $(ONLY)

## check-all: check with 1,000 random plans and 200 with overlap in the equivalence test (45, 10), 200 problems by ILP, lint-cuda
.PHONY: check-all
check-all: setup
	@$(MAKE) $(J) all tests
	@$(if $(WHY_NOT_CUDA),:,$(MAKE) lint-cuda)
	@PLANS=1000 OVERLAPPED=200 $(RUN_CHECKS) $(ONLY)

## check-asan: check under AddressSanitizer, LeakSanitizer and UBSan, with 10 plans
.PHONY: check-asan
check-asan: setup
	@$(MAKE) $(J) $(call check_code,$(BUILD)/asan) BUILD=$(BUILD)/asan SANITIZE=address,undefined all tests
	@SANITIZE=address,undefined PLANS=10 BUILD=$(BUILD)/asan bash tests/support/run_checks.sh $(ONLY)

## check-tsan: check under ThreadSanitizer, with 10 plans (20 minutes)
.PHONY: check-tsan
check-tsan: setup
	@$(MAKE) $(J) $(call check_code,$(BUILD)/tsan) BUILD=$(BUILD)/tsan SANITIZE=thread all tests
	@SANITIZE=thread PLANS=10 BUILD=$(BUILD)/tsan bash tests/support/run_checks.sh $(ONLY)

## fuzz: every reader and command line under libFuzzer for SECONDS each (60), ONLY=word one of them; needs clang
.PHONY: fuzz
fuzz:
	@$(MAKE) $(J) BUILD=$(BUILD)/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined fuzz-programs
	@bash tests/fuzz/run.sh $(BUILD)/fuzz $(or $(SECONDS),60) $(ONLY)

.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_PROGRAMS)

## check-valgrind: a tiny model from search to training on 2 ranks, every program under valgrind's memcheck (5 minutes)
.PHONY: check-valgrind
check-valgrind: setup
	@$(MAKE) $(J) all
	@bash tests/support/valgrind.sh $(BUILD)

## check-lean: build galplan as on a machine without MPI, OpenBLAS and hwloc, and see that it runs and links none
.PHONY: check-lean
check-lean:
	@$(MAKE) $(J) BARE=1 BUILD=$(BUILD)/lean all
	@sh tests/support/check_lean.sh $(BUILD)/lean

SAME_BUILDS := gcc-O0 gcc-O3 clang-O0 clang-O3
SAME_PROGRAMS := $(SAME_BUILDS:%=$(BUILD)/same/%/galplan)
## same-bytes: galplan by gcc and clang, at -O0 and at -O3, writes the same plans to the byte (10 minutes)
.PHONY: same-bytes
same-bytes:
	@for b in $(SAME_BUILDS); do $(MAKE) $(J) CC=$${b%-*} OPTIMIZE=-$${b#*-} BUILD=$(BUILD)/same/$$b \
		$(BUILD)/same/$$b/galplan || exit 1; done
	@bash tests/support/same_bytes.sh $(SAME_PROGRAMS)

## check-bare: a bare Debian 12 (debootstrap, root), and in it make demo and make check from a clone (10 minutes)
.PHONY: check-bare
check-bare:
	@bash tests/support/check_bare.sh

## check-gpu: on a machine with a GPU, whether it computes what the host does (OUT=file.json, ONLY=part, DRY=1 only lists)
.PHONY: check-gpu
check-gpu: GPU_TASK = check
check-gpu: gpu-task

## bench-gpu: on a machine with a GPU, how fast it trains and how well that is predicted (20 minutes; OUT, DRY, ONLY as check-gpu)
.PHONY: bench-gpu
bench-gpu: GPU_TASK = bench
bench-gpu: gpu-task

# A GPU is looked for before anything is built. The scripts say what is missing, and exit with 5.
.PHONY: gpu-task gpu-programs
gpu-task:
	@$(if $(WHY_NOT_CUDA),echo '$(GPU_TASK)-gpu: left out: CUDA ($(WHY_NOT_CUDA))' >&2; exit 5,:)
	@$(if $(DRY),:,python3 tests/gpu/$(GPU_TASK).py --probe)
	@$(MAKE) $(J) all gpu-programs
	@CUDA_HOME=$(CUDA_HOME) python3 tests/gpu/$(GPU_TASK).py $(if $(OUT),--out $(OUT)) $(if $(DRY),--dry-run) $(BUILD) $(ONLY)

gpu-programs: $(GPU_PROGRAMS)

## equivalence: 1,000 random plans against one rank in fp64, with the coverage matrix
.PHONY: equivalence
equivalence: setup
	@$(MAKE) $(J) all tests
	@BUILD=$(BUILD) PLANS=1000 OVERLAPPED=200 bash tests/numerics/equivalence.sh $(BUILD)

DATA ?= ../shared/published
## range-test: memory of two linear layers on 8 ranks under 1D, 2.5D and 3D tensor parallelism, measured (1 minute)
.PHONY: range-test
range-test: $(BUILD)/tests/numerics/two_linears
	@BUILD=$(BUILD) bash tests/numerics/test_two_linears.sh

## accuracy: predictions beside what others published, a folder of tables (DATA=../shared/published, SEED=1, ONLY=-v: all rows)
.PHONY: accuracy
accuracy:
	@$(MAKE) $(J) $(BUILD)/galplan
	@python3 tests/accuracy/published.py $(BUILD) $(DATA) $(or $(SEED),1) $(ONLY) || [ $$? -eq 77 ]

## accuracy-host: profile this machine, then predicted against measured seconds of 100 plans on 1 and 2 ranks, 10 on 4
.PHONY: accuracy-host
accuracy-host: setup
	@$(MAKE) $(J) all tests
	@BUILD=$(BUILD) bash tests/accuracy/host.sh $(BUILD)

## accuracy-analytic: durations from data sheets beside what others measured (a table, no bound)
.PHONY: accuracy-analytic
accuracy-analytic:
	@$(MAKE) $(J) all tests
	@$(BUILD)/tests/accuracy/analytic

## colossal-tables: renew the predictions of Colossal-AI's tables, tests/accuracy/colossal_tables.csv
.PHONY: colossal-tables
colossal-tables:
	@$(MAKE) $(J) all
	@/usr/bin/python3 tests/accuracy/test_colossal_tables.py $(BUILD) --renew

## oases-tables: renew the predictions of Oases' tables, tests/accuracy/oases_tables.csv and oases_figures.csv
.PHONY: oases-tables
oases-tables:
	@$(MAKE) $(J) all
	@/usr/bin/python3 tests/accuracy/test_oases_tables.py $(BUILD) --renew

## bench-program: time to lower, verify, simulate and price a plan of 96 layers on 1,024 devices
.PHONY: bench-program
bench-program:
	@$(MAKE) $(J) all tests
	@BUILD=$(BUILD) bash tests/bench/program.sh $(BUILD)

## bench-solve: time of galplan's exact solver by layers and strategies, one stage
.PHONY: bench-solve
bench-solve:
	@$(MAKE) $(J) all tests
	@bash tests/bench/solve.sh $(BUILD)

## bench-search: time and memory of whole searches, from catalogue names to the written plan (25 seconds)
.PHONY: bench-search
bench-search:
	@$(MAKE) $(J) all
	@python3 tests/bench/search.py $(BUILD)/galplan

## bench-search-curves: time of searches by layers, memory and strategies (2 minutes)
.PHONY: bench-search-curves
bench-search-curves:
	@$(MAKE) $(J) all
	@python3 tests/bench/search_curves.py $(BUILD)/galplan

## bench-search-axes: time of searches with every axis on 8, 64 and 1,024 devices (2 minutes)
.PHONY: bench-search-axes
bench-search-axes:
	@$(MAKE) $(J) all
	@python3 tests/bench/search_axes.py $(BUILD)/galplan

## bench-search-gains: what an axis of the search buys, on four clusters: the README's table (1 minute)
.PHONY: bench-search-gains
bench-search-gains:
	@$(MAKE) $(J) all
	@python3 tests/bench/search_gains.py $(BUILD)/galplan

## bench-catalogue: every model on every cluster that ships: plan or least that would do, time, gap; ONLY=words (1 hour)
.PHONY: bench-catalogue
bench-catalogue:
	@$(MAKE) $(J) all
	@python3 tests/bench/catalogue.py $(BUILD)/galplan $(ONLY)

## bench-strays: how far the plans that searches find are from their simulation: every model; ONLY=clusters (10 minutes)
.PHONY: bench-strays
bench-strays:
	@$(MAKE) $(J) all
	@python3 tests/bench/strays.py $(BUILD)/galplan $(ONLY)

## bench-host: training speed and memory of one process with two threads against PyTorch on the CPU (8 minutes)
.PHONY: bench-host
bench-host:
	@$(MAKE) $(J) all tests
	@PYTHON=$${PYTHON:-/usr/bin/python3} bash tests/bench/host.sh $(BUILD)

## bench-adam: the host's Adam against the memory's limit and against PyTorch's AdamW on the CPU (2 minutes)
.PHONY: bench-adam
bench-adam:
	@$(MAKE) $(J) all tests
	@PYTHON=$${PYTHON:-/usr/bin/python3} bash tests/bench/adam.sh $(BUILD)

## bench-offload: the largest model under a limit of the device's memory, by what lies in the host's; hybrid Adam (2 minutes)
.PHONY: bench-offload
bench-offload:
	@$(MAKE) $(J) all
	@python3 tests/bench/offload.py $(BUILD)

## bench-largest: the largest model of two ranks under limits of both memories: chunks, offload, storage (2 minutes)
.PHONY: bench-largest
bench-largest:
	@$(MAKE) $(J) all
	@python3 tests/bench/largest.py $(BUILD)

## bench-offload-seconds: predicted against measured seconds of 84 plans with offload (18 minutes, an idle machine)
.PHONY: bench-offload-seconds
bench-offload-seconds:
	@$(MAKE) $(J) all
	@python3 tests/bench/offload_seconds.py $(BUILD)

## bench-overlap: overlapped schedules over a slowed link: predicted and measured; needs an idle machine (6 minutes)
.PHONY: bench-overlap
bench-overlap:
	@$(MAKE) $(J) all
	@python3 tests/bench/overlap.py $(BUILD)

## bench-streams: what overlap of communication with compute gains here, and what a step still waits for (5 minutes)
.PHONY: bench-streams
bench-streams:
	@$(MAKE) $(J) all
	@bash tests/bench/streams.sh $(BUILD)

## golden: renew the expected output in tests/golden (review the diff as code)
.PHONY: golden
golden:
	@$(MAKE) $(J) all
	@BUILD=$(BUILD) bash tests/golden/run.sh $(BUILD) --renew

# Manual pages and completion are printed by the programs that were built.
INSTALL_PROGRAMS := $(filter-out %.a,$(PROGRAMS))
INSTALL_SAMPLES := $(wildcard runtime/cli/samples/*)
INSTALL_BIN = $(DESTDIR)$(PREFIX)/bin
INSTALL_MAN = $(DESTDIR)$(PREFIX)/share/man/man1
INSTALL_COMPLETION = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
INSTALL_SHARE = $(DESTDIR)$(PREFIX)/share/galplan

## install: programs, manual pages, bash completion, samples below $(DESTDIR)$(PREFIX) (/usr/local)
.PHONY: install
install: all
	install -d "$(INSTALL_BIN)" "$(INSTALL_MAN)" "$(INSTALL_COMPLETION)" "$(INSTALL_SHARE)/samples"
	install -m 755 $(INSTALL_PROGRAMS) "$(INSTALL_BIN)"
	install -m 755 $(INSTALL_SAMPLES) "$(INSTALL_SHARE)/samples"
	install -m 644 LICENSE README.md schemas/*.schema.json "$(INSTALL_SHARE)"
	sh schemas/base/install_pages.sh "$(INSTALL_BIN)" "$(INSTALL_MAN)" "$(INSTALL_COMPLETION)"

## uninstall: remove what make install put there
.PHONY: uninstall
uninstall:
	rm -f $(patsubst %,"$(INSTALL_BIN)"/%,galplan galplan-profile galrun) \
		$(patsubst %,"$(INSTALL_COMPLETION)"/%,galplan galrun) \
		"$(INSTALL_MAN)"/galplan.1 "$(INSTALL_MAN)"/galplan-*.1 "$(INSTALL_MAN)"/galrun.1
	rm -rf "$(INSTALL_SHARE)"

## format: lay out every C file by .clang-format
.PHONY: format
format:
	clang-format -i $(shell find $(C_FOLDERS) -name '*.[ch]')

## lint: layout, clang-tidy (.clang-tidy) and cppcheck; what the compilers and check-asan see better is suppressed (3 minutes)
.PHONY: lint
lint: $(CATALOGUE)
	clang-format --dry-run -Werror $(shell find $(C_FOLDERS) -name '*.[ch]')
	clang-tidy --quiet $(PLAN_SOURCES) $(PLAN_CLI) $(RUN_SOURCES) $(RUN_CLI) $(PROFILE_CLI) $(HOST_ONCE) $(HOST_TWICE) \
		$(CUDA_C_SOURCES) -- -std=c11 -D_GNU_SOURCE -I. -DGAL_REAL_FP64=1 $(RUN_CFLAGS) $(CUDA_CFLAGS)
	cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --suppress=internalAstError --suppress=uninitvar --suppress=legacyUninitvar --suppress=memleak \
		--suppress=invalidPrintfArgType_uint \
		-I. -D_GNU_SOURCE -DGAL_REAL_FP64=1 $(C_FOLDERS)

## lint-cuda: registers, spills and shared memory of every kernel on every architecture; no hot kernel may spill
.PHONY: lint-cuda
lint-cuda:
	@$(if $(WHY_NOT_CUDA),echo 'lint-cuda: left out: CUDA ($(WHY_NOT_CUDA))'; exit 1,:)
	@bash tests/support/lint_cuda.sh $(foreach f,$(CUDA_CU_SOURCES),'$(f)=$(call nvcc_for,$(f))')

## cudnn-table: which attention of the catalogue's models cuDNN has engines for on an H200, and which is our own (no GPU)
.PHONY: cudnn-table
cudnn-table:
	@$(if $(WHY_NOT_CUDA),echo 'cudnn-table: left out: CUDA ($(WHY_NOT_CUDA))'; exit 1,:)
	@$(MAKE) $(J) $(BUILD)/tests/unit/test_cudnn_attention
	@$(BUILD)/tests/unit/test_cudnn_attention --table

C_FOLDERS := schemas runtime costmodel planner profiler tests

## clean: remove everything that was built
.PHONY: clean
clean:
	rm -rf $(BUILD)

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do \
		printf '%-15s %s\n' "$$name" "$$text"; done
	@echo 'ONLY=word runs the checks whose path holds the word: make check ONLY=unit/test_json'

-include $(OBJECTS:.o=.d)
