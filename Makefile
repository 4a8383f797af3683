# `make install` builds .venv once; every other target reuses it.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: install browser demo test test-long test-oldest attack mutants check bench studies docs dist clean

install: .venv/.installed

# PyTorch by pip, whose settings may name an index of CPU builds; the rest by uv, in a third of pip's time, or
# by pip where those settings name the only index that can be reached.
.venv/.installed: ALL = --quiet --constraint constraints.txt --editable ".[dev]"
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch uv
	$(BIN)/uv pip install --compile-bytecode --python $(BIN)/python $(ALL) || $(BIN)/pip install $(ALL)
	touch $@

demo: install  ## README's first command: DNA windows, whose letters mean something by their order alone; a minute on two cores
	$(BIN)/vnait compare builtin:splice --test builtin:splice-test --tokenization characters --methods none,vnait \
		--shots 32 --seeds 3 --steps 60 --out runs/demo

browser:  ## Debian's chromium, for tests/test_browser.py; where it can't be had, those tests are skipped
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq -y chromium; } \
		|| echo "no chromium and no root with apt-get: the tests in a browser are skipped"

test: install browser  ## a quarter of an hour on two cores: all but the tests marked long
	$(PYTEST) -m "not long" --durations 25

test-long: install  ## the rest: each law compiled, rare families, each family of the doctor, transformers' own tests, faults, clusters, no extras
	$(PYTEST) -m long

attack: install  ## 60,000 changed files, faults and kills at every named point, and files that unpack to gigabytes, as four tables; two hours
	$(BIN)/python tests/attack/mutations.py 60000
	$(BIN)/python tests/attack/faults.py 24
	$(BIN)/python tests/attack/kills.py 20
	$(BIN)/python tests/attack/bombs.py

mutants: install  ## 300 mutants of what computes positions and attaches it; two hours, one of which finds out what each test reaches
	$(BIN)/pip install --quiet mutmut pytest-cov
	$(BIN)/python tests/attack/mutants.py 300

OLDEST := build/oldest
test-oldest:  ## README's examples and the fast tests of models, with the oldest versions that pyproject.toml allows; they warn of what is new
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet uv
	$(OLDEST)/bin/uv pip compile --quiet --python $(OLDEST)/bin/python --resolution lowest-direct --extra figures --extra report pyproject.toml \
		--output-file build/oldest.txt
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --constraint build/oldest.txt --editable ".[figures,report]" \
		beartype hypothesis jieba openpyxl peft pytest pytest-timeout
	$(OLDEST)/bin/python -m pytest -W default -m "not slow and not long" tests/test_docs.py -k README
	$(OLDEST)/bin/python -m pytest -W default -m "not slow and not long" $(addprefix tests/test_, $(addsuffix .py, \
		model causal generation golden loading pretrained clients families estimator))

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install  ## ratios measured side by side
	$(BIN)/python benchmarks/run.py

docs: install  ## every example in README and docs/ runs, every link resolves; the site in build/site
	$(BIN)/pytest tests/test_docs.py
	$(BIN)/python docs/site.py

# Of the commit, and of nothing that lies beside it; all times are the commit's, so that the same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: install  ## the wheel and the source archive of the last commit, in build/dist
	rm -rf build/dist build/source build/tools && mkdir -p build/dist build/source
	$(BIN)/pip install --quiet --target build/tools "setuptools>=77"
	git archive HEAD | tar -x -C build/source
	cd build/source && PYTHONPATH=$(CURDIR)/build/tools $(CURDIR)/$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('..'); b.build_wheel('../dist')"
	cd build && for packed in vnait-*.tar.gz; do tar -xzf $$packed && tar --sort=name --mtime=@$$SOURCE_DATE_EPOCH --owner=0 --group=0 \
		--numeric-owner --mode=u+rw,go+r,go-w -cf - $${packed%.tar.gz} | gzip -n9 > dist/$$packed; rm -r $$packed $${packed%.tar.gz}; done
	sha256sum build/dist/*

studies: install  ## VNAIT_DATA is a folder with one folder per set; goes on where it stopped; days on two cores from nothing
	@test -n "$$VNAIT_DATA" || { echo "VNAIT_DATA is not set; set it to a folder with one folder per set (train.csv and test.csv)."; exit 2; }
	$(BIN)/vnait study all --out studies/records/claims
	$(BIN)/vnait study length --seeds 3 --out studies/records/length
	$(BIN)/vnait study length --methods vnait,vnait-warp --seeds 10 --out studies/records/length
	$(BIN)/vnait study elastic --methods vnait-uniform,vnait-context,cope,cable,lpi,rope --seeds 3 --out studies/records/elastic
	$(BIN)/vnait study elastic --methods vnait --seeds 10 --out studies/records/elastic
	$(BIN)/vnait study algorithmic --seeds 3 --out studies/records/algorithmic
	$(BIN)/vnait study decoding --seeds 3 --out studies/records/decoding
	$(BIN)/vnait study few-labels --seeds 10 --out studies/records/few_labels
	$(BIN)/python -m vnait_lab.runs.held_out
	$(BIN)/python -m vnait_lab.runs.factorial
	$(BIN)/python -m vnait_lab.runs.gaps
	$(BIN)/python -m vnait_lab.runs.insertions
	$(BIN)/python -m vnait_lab.runs.decoders
	$(BIN)/python -m vnait_lab.runs.decoders --suite decoding --tasks copy,reverse,sorting --schemes alibi,t5,cable,rope
	$(BIN)/python -m vnait_lab.runs.nine_sets
	$(BIN)/python -m vnait_lab.runs.nine_sets --unlabelled rest --shots 64 --methods vnait-uniform,vnait
	$(BIN)/python -m vnait_lab.runs.nine_sets --unlabelled rest --shots all --methods vnait-uniform,vnait --seeds 3
	$(BIN)/python -m vnait_lab.runs.rotation
	$(BIN)/vnait study language --methods vnait,vnait-uniform,rope --tasks masked-wikitext2,masked-tinyshakespeare,masked-eprstmt --seeds 3 --out studies/records/masked
	$(BIN)/python -m vnait_lab.runs.choices
	$(BIN)/python -m vnait_lab.runs.convergence
	$(BIN)/python -m vnait_lab.runs.self_supervision --sets trec
	$(BIN)/python -m vnait_lab.runs.tagging
	$(BIN)/python -m vnait_lab.runs.translations
	if command -v apt-cache > /dev/null; then mkdir -p build && apt-cache dumpavail > build/available \
		&& $(BIN)/python -m vnait_lab.runs.package_tags build/available \
		&& $(BIN)/python -m vnait_lab.runs.package_sizes build/available; fi
	$(BIN)/python -m vnait_lab.runs.longer_articles
	$(BIN)/python -m vnait_lab.runs.retokenization
	$(BIN)/python -m vnait_lab.runs.replies
	$(BIN)/python -m vnait_lab.runs.ablation
	$(BIN)/python -m vnait_lab.runs.ablation --sets splice,trec --seeds 10
	$(BIN)/python -m vnait_lab.page

clean:
	rm -rf .venv runs build
