dist_man_MANS += doc/tessera.1
EXTRA_DIST += doc/architecture.md doc/formats.md
