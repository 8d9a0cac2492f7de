# cfrunner: one Makefile. Users keep CFLAGS and LDFLAGS; ours ride beside them.
#
#   make              the program, cf-init, both libraries and the plugin, under build/
#   make demo         from a bare machine to two green diagnostics
#   make test         unit tests, sanitizer build, integration tests against a real Engine
#   make unit         unit tests alone (no Engine);  make asan: the same under ASan and UBSan
#   make integration  integration tests alone (an Engine must answer or be installable)
#   make campaign RUNS=N SEED=S: faults of every kind beside normal runs, audited; all zeros or red
#   make test-sdk, test-agents: the vendors' SDKs, and real agents; both need npm
#   make bench        ratios, printed, never asserted;  make fuzz FUZZ_S=60: every fuzzer
#   make test-swarm   one job on three engines of one swarm, one of them killed in the middle
#   make test-faults  what takes long: dockerd itself killed, stopped and starved;  make analyze
#   make test-podman  the integration tests on Podman
#   make setup        install the Debian packages that build and tests need
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/bash

B       ?= build
CC      ?= gcc
CFLAGS  ?= -O2 -g
PKGS    := libuv libcurl jansson libsodium libarchive

OURS := -std=gnu11 -D_GNU_SOURCE -fvisibility=hidden -fPIC -MMD -MP -Iinclude -Idriver -I. \
        -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter \
        -fstack-protector-strong
OURS += $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS  = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lhttp_parser -lm

# Floors, lowest first. A room links against its own floor's needs and what lies below: an
# upward call is a link error in that room's unit tests.
FLOOR0 := base json loop
FLOOR1 := engine wire mux schema correspond
FLOOR2 := sandbox relay registry journal observe capability
FLOOR3 := run
FLOOR4 := diagnose
FLOOR5 := cli plugin
LIBROOMS := $(FLOOR0) $(FLOOR1) $(FLOOR2) $(FLOOR3) plugin
ROOMS    := $(LIBROOMS) $(FLOOR4) cli

objs     = $(patsubst %.c,$(B)/%.o,$(filter-out driver/$(1)/main.c,$(sort $(wildcard driver/$(1)/*.c))))
archive  = $(B)/room/lib$(1).a
ALLOBJ  := $(foreach r,$(ROOMS),$(call objs,$(r)))
LIBOBJ   = $(foreach r,$(LIBROOMS),$(call objs,$(r)))

.PHONY: all clean setup demo test unit asan integration bench fuzz fmt install
all: $(B)/cfrunner $(B)/cf-init $(B)/libcfrunner.so $(B)/libcfrunner.a $(B)/cfrunner-docker.so

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC $<"; $(CC) $(OURS) $(CFLAGS) -c -o $@ $<

# Every allocation of the library's own goes through one door, which no file can forget.
$(foreach r,$(LIBROOMS),$(B)/driver/$(r)/%.o): OURS += -include driver/base/memory.h
$(LIBOBJ): driver/base/memory.h

# .incbin is not seen by -MMD
$(B)/driver/schema/builtin.o: $(wildcard proto/harness-*.schema.json)
$(B)/driver/cli/init.o: $(wildcard docker/init-*/*)
$(B)/driver/diagnose/page.o: $(wildcard driver/diagnose/page.html driver/diagnose/page.css driver/diagnose/page.js)

define room_archive
$(call archive,$(1)): $(call objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_archive,$(r))))

# One object whose inner names are its own: a host that links it may have an acp_send of its own.
$(B)/libcfrunner.o: $(LIBOBJ) $(B)/cf-init.o
	@echo "LD $@"; $(CC) -r -nostdlib -o $@ $^ && objcopy --localize-hidden --localize-symbol=_binary_cf_init_start \
	    --localize-symbol=_binary_cf_init_end --localize-symbol=_binary_cf_init_size $@
$(B)/libcfrunner.a: $(B)/libcfrunner.o
	@rm -f $@
	@ar rcs $@ $^

# Under its SONAME, so that what is linked against it runs from here too. An embedder gets either
# the library or the driver, which is the same code behind one symbol.
SONAME := libcfrunner.so.1
$(B)/$(SONAME): driver/run/exports.map $(LIBOBJ) $(B)/cf-init.o
	@echo "LD $@"; $(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script,$< -Wl,-z,defs $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)
$(B)/libcfrunner.so: $(B)/$(SONAME)
	@ln -sf $(SONAME) $@
$(B)/cfrunner-docker.so: driver/plugin/exports.map $(LIBOBJ) $(B)/cf-init.o
	@echo "LD $@"; $(CC) -shared -Wl,--version-script,$< -Wl,-z,defs $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)

$(B)/cfrunner: $(call objs,cli) $(B)/driver/cli/main.o $(call objs,diagnose) $(LIBOBJ) $(B)/cf-init.o
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# cf-init: static, small, no sanitizer; base and mux compiled again with its own flags.
INIT_SRC := $(sort $(wildcard driver/init/*.c driver/mux/*.c driver/base/*.c))
INIT_OBJ := $(patsubst %.c,$(B)/init/%.o,$(INIT_SRC))
$(B)/init/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC (init) $<"; $(CC) $(filter-out -fPIC -fsanitize%,$(OURS)) -Os -ffunction-sections -fdata-sections -c -o $@ $<
$(B)/cf-init: $(INIT_OBJ)
	@echo "LD $@"; $(CC) -static -Os -Wl,--gc-sections -s -o $@ $^ -ljansson

# Once more for the tests that run it in namespaces: with sanitizers, and so not static.
$(B)/cf-init-sanitized: $(INIT_SRC) $(wildcard driver/init/*.h driver/mux/*.h driver/base/*.h)
	@echo "LD $@"; $(CC) $(filter-out -MMD -MP,$(OURS)) $(ASAN) -o $@ $(INIT_SRC) -ljansson

# The program carries cf-init inside itself, so that one file is the whole tool.
$(B)/cf-init.o: $(B)/cf-init
	cd $(B) && ld -r -b binary -z noexecstack -o cf-init.o cf-init && \
	objcopy --rename-section .data=.rodata,alloc,load,readonly,data,contents cf-init.o

clean:
	rm -rf $(B)

# ---- install: make install PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu DESTDIR=... ---------
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
DATADIR ?= $(PREFIX)/share
VERSION := $(shell sed -n 's/^\#define CFRUNNER_VERSION "\(.*\)"/\1/p' include/cfrunner/version.h)
PUT     := install -D -m 644

# Lines of an installed page or file that name where it was installed.
INSTALLED := sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
             -e 's|LIBDIR/|$(LIBDIR)/|' -e 's|DATADIR/|$(DATADIR)/|' -e 's|DOCDIR/|$(DATADIR)/doc/cfrunner/|'

install: all
	install -D -m 755 $(B)/cfrunner $(DESTDIR)$(PREFIX)/bin/cfrunner
	$(PUT) $(B)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libcfrunner.so
	$(PUT) $(B)/libcfrunner.a $(DESTDIR)$(LIBDIR)/libcfrunner.a
	$(PUT) $(B)/cfrunner-docker.so $(DESTDIR)$(LIBDIR)/cfrunner/cfrunner-docker.so
	$(PUT) -t $(DESTDIR)$(PREFIX)/include/cfrunner include/cfrunner/*.h
	$(PUT) -t $(DESTDIR)$(DATADIR)/cfrunner proto/*.schema.json
	$(PUT) -t $(DESTDIR)$(DATADIR)/doc/cfrunner README.md
	$(PUT) -t $(DESTDIR)$(DATADIR)/doc/cfrunner/examples $(wildcard tests/examples/*.c tests/examples/*.py)
	$(PUT) driver/cli/cfrunner.bash $(DESTDIR)$(DATADIR)/bash-completion/completions/cfrunner
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(DATADIR)/man/man1 $(DESTDIR)$(DATADIR)/man/man3
	$(INSTALLED) driver/plugin/cfrunner.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/cfrunner.pc
	$(INSTALLED) driver/plugin/cfrunner-driver.3 >$(DESTDIR)$(DATADIR)/man/man3/cfrunner-driver.3
	$(PUT) driver/cli/cfrunner.1 $(DESTDIR)$(DATADIR)/man/man1/cfrunner.1

# ---- unit tests: tests/<room>/test_*.c, one program each --------------------------------
# needs-<room>: the archives a room's tests may link, in link order.
needs-base       := base
needs-json       := json base
needs-loop       := loop json base
needs-engine     := engine loop json base
needs-wire       := wire json base
needs-mux        := mux base
needs-init       := mux base
needs-schema     := schema json base
needs-correspond := correspond json base
needs-sandbox    := sandbox engine mux loop json base
needs-relay      := relay capability schema loop json base
needs-registry   := registry loop json base
needs-journal    := journal correspond loop json base
needs-observe    := observe capability schema wire json base
needs-capability := capability schema json base
needs-run        := $(LIBROOMS)
needs-diagnose   := diagnose $(LIBROOMS)
needs-cli        := cli diagnose $(LIBROOMS)
needs-plugin     := $(LIBROOMS)

TESTSRC := $(sort $(wildcard tests/*/test_*.c))
TESTBIN := $(patsubst %.c,$(B)/%,$(TESTSRC))
SUPPORT := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/support/unit*.c)))

define unit_test
$(B)/tests/$(1)/test_%: $(B)/tests/$(1)/test_%.o $(SUPPORT) $(foreach r,$(needs-$(1)),$(call archive,$(r))) $(if $(filter sandbox run diagnose cli plugin,$(1)),$(B)/cf-init.o)
	@echo "LD $$@"; $$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(shell pkg-config --libs check) $$(LIBS)
endef
$(foreach r,init $(ROOMS),$(eval $(call unit_test,$(r))))
.PRECIOUS: $(B)/tests/%.o

unit-bins: $(TESTBIN) $(B)/cf-init
unit: unit-bins
	tests/support/run-unit $(B) $(TESTBIN)
asan:
	ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	$(MAKE) B=$(B)/asan CFLAGS="-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer" unit

-include $(patsubst %.c,$(B)/%.d,$(wildcard driver/*/*.c tests/*/*.c)) $(INIT_OBJ:.o=.d)

# ---- harnesses: static programs, and the build contexts of their images FROM scratch -------
# build/context/<name>/ is self-contained: a Dockerfile and the one program it copies.
HN_BASE := $(addprefix driver/base/,buf.c clock.c error.c str.c utf8.c)
HN_COMMON := $(sort $(wildcard docker/harness-common/*.c)) $(HN_BASE)
HN_OURS  = $(filter-out -fPIC -fsanitize%,$(OURS)) -Idocker/harness-common
hnobjs   = $(patsubst %.c,$(B)/hn/%.o,$(sort $(wildcard $(1)/*.c)) $(HN_COMMON))

$(B)/hn/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC (harness) $<"; $(CC) $(HN_OURS) -Os -ffunction-sections -fdata-sections -c -o $@ $<

define harness_program
$(B)/$(1): $(call hnobjs,$(2))
	@echo "LD $$@"; $$(CC) -static -Os -Wl,--gc-sections -s -o $$@ $$^ -ljansson -lhttp_parser
-include $(patsubst %.o,%.d,$(call hnobjs,$(2)))
endef
$(eval $(call harness_program,checkfu-oneshot,docker/oneshot-harness))
$(eval $(call harness_program,acp-agent,docker/acp-harness))
$(eval $(call harness_program,fault,tests/support/faults))
$(eval $(call harness_program,acp-script,tests/support/acp-script))
$(eval $(call harness_program,door,tests/support/door))
$(eval $(call harness_program,escape,tests/support/escape))

$(B)/context/oneshot-harness/Dockerfile: docker/oneshot-harness/Dockerfile $(B)/checkfu-oneshot
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(B)/checkfu-oneshot $(@D)/ && cp $< $@

$(B)/context/acp-harness/Dockerfile: docker/acp-harness/Dockerfile $(B)/acp-agent
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(B)/acp-agent $(@D)/ && cp $< $@

# Beside the program stand files that are no entrypoint, each in its own way.
$(B)/context/fault/Dockerfile: tests/support/faults/Dockerfile tests/support/faults/lookalikes $(B)/fault
	@rm -rf $(@D) && CC="$(CC)" tests/support/faults/lookalikes $(B)/fault $(@D)/root/opt/fault/bin && cp $< $@

$(B)/context/acp-script/Dockerfile: tests/support/acp-script/Dockerfile $(B)/acp-script $(wildcard fixtures/wire/*.acps)
	@rm -rf $(@D) && mkdir -p $(@D)/wire && cp $(B)/acp-script $(@D)/ && cp fixtures/wire/*.acps $(@D)/wire/ && cp $< $@

$(B)/context/escape/Dockerfile: tests/support/escape/Dockerfile $(B)/escape
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(B)/escape $(@D)/ && \
	tar -C $(B) -cf $(@D)/suid.tar --owner=0 --group=0 --mode=4755 --transform='s|^|opt/escape/bin/|;s|escape$$|suid|' escape && cp $< $@

$(B)/context/door/Dockerfile: tests/support/door/Dockerfile $(B)/door
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(B)/door $(@D)/ && cp $< $@

CONTEXTS := $(patsubst %,$(B)/context/%/Dockerfile,oneshot-harness acp-harness fault acp-script escape door)
.PHONY: harnesses
harnesses: $(CONTEXTS)

# Their tests: the parts compiled once more with everybody's flags (so under ASan too), and the
# programs themselves run against a model of the tests' own.
HN_PARTS := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard docker/harness-common/*.c)) \
            $(addprefix docker/acp-harness/,authority.c declare.c shape.c) tests/harness/rig.c)
$(B)/tests/harness/%.o $(HN_PARTS): OURS += -Idocker/harness-common
$(B)/tests/harness/test_%: $(B)/tests/harness/test_%.o $(SUPPORT) $(HN_PARTS) $(call archive,base) \
                          | $(addprefix $(B)/,checkfu-oneshot acp-agent fault acp-script)
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
-include $(HN_PARTS:.o=.d)

# ---- one job on many engines: the pool as a program, coordinator and worker -----------------
CLUSTER_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard docker/cluster/*.c)))
$(CLUSTER_OBJ): OURS += -Idocker/cluster
$(B)/cfrunner-pool: $(CLUSTER_OBJ) $(foreach r,$(LIBROOMS),$(call archive,$(r))) $(B)/cf-init.o
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
$(B)/tests/cluster/%.o: OURS += -Idocker/cluster
$(B)/tests/cluster/test_%: $(B)/tests/cluster/test_%.o $(SUPPORT) $(B)/docker/cluster/ledger.o $(call archive,json) $(call archive,base)
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
-include $(CLUSTER_OBJ:.o=.d)

# ---- end of harnesses ------------------------------------------------------------------

# ---- tests, demo, fuzzers, benchmarks ---------------------------------------------------
JOBS ?= $(shell nproc)
ASAN := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer

# Programs that integration tests use.
HELPERS = $(addprefix $(B)/tests/support/,registry drive mcp provider spoil)

setup:
	docker/engine/setup
# A bare machine has no pkg-config when this file is first read: make is called anew after setup.
demo: setup
	MAKE="$(MAKE)" docker/engine/with-engine docker/demo "$(B)"
# What only the tests need is installed while the build runs.
test: setup
	@docker/engine/setup --test & readers=$$!; \
	$(MAKE) --no-print-directory -j$(JOBS) tested; built=$$?; \
	wait $$readers && [ $$built = 0 ]
	docker/engine/with-engine tests/support/run-all $(B) $(B)/asan
integration:
	@$(MAKE) --no-print-directory -j$(JOBS) all harnesses examples $(HELPERS) $(B)/cfrunner-pool
	docker/engine/with-engine tests/support/run-integration $(B)
bench:
	@$(MAKE) --no-print-directory -j$(JOBS) all harnesses benches examples $(HELPERS) $(B)/tests/support/relay
	docker/engine/with-engine tests/bench/run $(B)
.PHONY: tested asan-bins benches unit-bins
tested: all harnesses examples unit-bins $(HELPERS) $(B)/cfrunner-pool asan-bins
asan-bins:
	@$(MAKE) --no-print-directory B=$(B)/asan CFLAGS="$(ASAN)" all harnesses examples unit-bins fuzz-replays $(HELPERS:$(B)/%=$(B)/asan/%) $(B)/asan/cf-init-sanitized

# Two rooms as programs of their own. Their objects stand aside: a program has the name of its
# source's folder.
define support_program
$(B)/support-$(1).o: tests/support/$(1)/main.c
	@mkdir -p $$(@D)
	@echo "CC $$<"; $$(CC) $$(OURS) $$(CFLAGS) -c -o $$@ $$<
$(B)/tests/support/$(1): $(B)/support-$(1).o $(foreach r,$(1) loop json base,$(call archive,$(r)))
	@mkdir -p $$(@D)
	@echo "LD $$@"; $$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$< -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LIBS)
-include $(B)/support-$(1).d
endef
$(foreach p,registry relay,$(eval $(call support_program,$(p))))
# A host that listens and answers, over the public door alone; a small MCP server; a model provider.
$(B)/support-drive.o $(B)/support-mcp.o $(B)/support-provider.o: $(B)/support-%.o: tests/support/%/main.c
	@mkdir -p $(@D)
	@echo "CC $<"; $(CC) $(OURS) $(CFLAGS) -c -o $@ $<
$(B)/tests/support/drive: $(B)/support-drive.o $(B)/libcfrunner.a
$(B)/tests/support/mcp: $(B)/support-mcp.o
$(B)/tests/support/provider: $(B)/support-provider.o $(call archive,loop) $(call archive,base)
$(B)/tests/support/drive $(B)/tests/support/mcp $(B)/tests/support/provider:
	@mkdir -p $(@D)
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
-include $(B)/support-drive.d $(B)/support-mcp.d $(B)/support-provider.d

# An Engine that fails in the middle, for whole programs.
$(B)/tests/support/spoiler/main.o: tests/support/engine_proxy.h
$(B)/tests/support/spoil: $(B)/tests/support/spoiler/main.o $(call archive,base)
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Faults and normal runs, two at a time, audited after each:  make campaign RUNS=1000 SEED=1
RUNS ?= 60
SEED ?= 1
.PHONY: campaign
campaign:
	@$(MAKE) --no-print-directory -j$(JOBS) all harnesses $(B)/tests/support/registry $(B)/tests/support/spoil
	tests/campaign/campaign $(B) $(RUNS) $(SEED)

# What takes minutes: dockerd killed, stopped and starved, its shim and its containers taken away, every
# request of a story spoiled in every way, 10 GiB of output. No part of `make test`.
.PHONY: test-faults
test-faults:
	@$(MAKE) --no-print-directory -j$(JOBS) all harnesses $(B)/tests/support/registry $(B)/tests/support/spoil $(B)/tests/sandbox/test_live_faults
	CF_TEST_DIR=tests/slow docker/engine/with-engine tests/support/run-integration $(B)

# The integration tests against the API socket of Debian's Podman, as root; installs it.
# What is dockerd's own (its processes, its classic builder's steps) is left out by name.
PODMAN_TESTS ?= diagnostic run bad-input honest hostile escape acp oneshot doctor
.PHONY: test-podman
test-podman:
	@$(MAKE) --no-print-directory -j$(JOBS) all harnesses examples $(HELPERS)
	tests/support/with-podman tests/support/run-integration $(B) $(PODMAN_TESTS)

# The vendors' SDKs against the relay; needs npm, so it is no part of `make test`.
.PHONY: test-sdk
test-sdk: $(B)/tests/support/relay
	tests/sdk/run $(B)

# Three engines in one swarm, one of them killed in the middle of a job; about a minute and a half.
.PHONY: test-swarm
test-swarm: setup
	docker/engine/setup --engine
	@$(MAKE) --no-print-directory -j$(JOBS) $(B)/cfrunner-pool $(B)/context/acp-script/Dockerfile
	tests/cluster/swarm $(B)

# Real agents from npm, unmodified, in the lane; npm and debootstrap fetch them once into build/agents.
.PHONY: test-agents
test-agents: all $(B)/tests/support/registry
	tests/agents/fetch $(B)
	CF_BUILD=$(B) docker/engine/with-engine tests/agents/lanes

# Fuzzers: with clang they search (make fuzz FUZZ_S=60), with gcc they replay what is in fixtures.
FUZZ_S   ?= 60
FUZZSRC  := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZROOMS := $(LIBROOMS) diagnose cli
$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/support/fuzz_replay.o $(foreach r,$(FUZZROOMS),$(call archive,$(r))) $(B)/cf-init.o
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
.PHONY: fuzz-replays fuzz
fuzz-replays: $(patsubst %.c,$(B)/%,$(FUZZSRC))
fuzz:
	tests/fuzz/run $(B) $(FUZZ_S)

# clang's static analyzer and cppcheck; both are red when they say anything.
.PHONY: analyze
analyze:
	tests/support/analyze $(B)

# Hosts as a reader would write them, and one that counts memory: programs, run by the tests.
EXAMPLES := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/examples/*.c tests/plugin/host_*.c)))
$(EXAMPLES): $(B)/%: $(B)/%.o $(B)/libcfrunner.a
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
-include $(EXAMPLES:=.d)
.PHONY: examples
examples: $(EXAMPLES)

BENCHSRC := $(sort $(wildcard tests/bench/bench_*.c))
$(B)/tests/bench/bench_%: $(B)/tests/bench/bench_%.o $(foreach r,$(LIBROOMS),$(call archive,$(r))) $(B)/cf-init.o
	@echo "LD $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
benches: $(patsubst %.c,$(B)/%,$(BENCHSRC))
-include $(wildcard $(B)/tests/fuzz/*.d $(B)/tests/bench/*.d $(B)/tests/support/*.d)
