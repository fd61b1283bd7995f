dist_man_MANS += doc/tessera.1
EXTRA_DIST += doc/architecture.md doc/cache.md doc/checkpoints.md doc/data.md doc/deck.md doc/dense.md doc/formats.md doc/hardening.md doc/models.md doc/performance.md doc/pipelines.md doc/pipelines-base.svg doc/pipelines-fused_sparse_dist.svg doc/pipelines-prefetch.svg doc/pipelines-semi_sync.svg doc/pipelines-sparse_dist.svg doc/planner.md doc/reliability.md doc/runtime.md doc/sharding.md doc/slurm.md doc/sparse.md

# doc/deck.md is what the program says; tests/cli_messages.sh compares.
doc-deck: tessera
	./tessera help deck > $(srcdir)/doc/deck.md
.PHONY: doc-deck
