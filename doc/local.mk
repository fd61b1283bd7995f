dist_man_MANS += doc/tessera.1
# Files of users, byte for byte: for those who read or write them.
dist_doc_DATA += doc/formats.md

# For those who work on the program; users have the manual.
EXTRA_DIST += doc/architecture.md doc/cache.md doc/checkpoints.md \
  doc/cuda.md doc/deck.md doc/dense.md doc/extending.md \
  doc/hardening.md \
  doc/performance.md doc/performance doc/quality.md doc/reliability.md doc/runtime.md doc/sparse.md

# The manual, doc/tessera.texi and the chapters that it takes in: `make info`
# (part of `make`), `make html`, `make pdf`.
manual_chapters = doc/tutorial.texi doc/cluster.texi doc/decks.texi \
  doc/deck.texi doc/data.texi doc/predict.texi doc/tune.texi doc/models.texi doc/kinds.texi doc/sharding.texi \
  doc/planner.texi doc/pipelines.texi doc/storage.texi doc/serving.texi doc/validation.texi doc/slurm.texi \
  doc/gpus.texi doc/install.texi \
  doc/tuning.texi doc/limits.texi doc/messages.texi doc/messages-deck.texi \
  doc/reference.texi
# A picture is an SVG for HTML and PDF, and a text for info.
manual_pictures = pipelines-base pipelines-sparse_dist \
  pipelines-fused_sparse_dist pipelines-semi_sync pipelines-prefetch \
  sharding-table_wise sharding-column_wise sharding-row_wise \
  sharding-table_row_wise sharding-table_column_wise sharding-grid \
  sharding-data_parallel
manual_svg = $(manual_pictures:%=doc/%.svg)
drawn = $(manual_svg) $(manual_pictures:%=doc/%.txt)
EXTRA_DIST += doc/tessera.texi $(manual_chapters) $(drawn) doc/manual.css doc/no-tex doc/no-makeinfo

info_TEXINFOS = doc/tessera.texi
doc_tessera_TEXINFOS = $(manual_chapters)
AM_MAKEINFOFLAGS = -I $(srcdir)/doc
AM_MAKEINFOHTMLFLAGS = $(AM_MAKEINFOFLAGS) --no-split \
  --css-include=$(srcdir)/doc/manual.css

# HTML names its pictures; they stand beside it.
html-local: $(manual_svg)
	@$(MKDIR_P) doc; for p in $^; do \
	  test $$p -ef doc/$${p##*/} || cp -f $$p doc/ || exit 1; done
install-html-local: $(manual_svg)
	$(MKDIR_P) "$(DESTDIR)$(htmldir)"
	for p in $^; do test ! -f $$p || \
	  $(INSTALL_DATA) $$p "$(DESTDIR)$(htmldir)" || exit 1; done
uninstall_local += uninstall-pictures
uninstall-pictures:
	for p in $(manual_pictures); do \
	  rm -f "$(DESTDIR)$(htmldir)/$$p.svg"; done

# With the manual as HTML; who has no makeinfo has it as info, if at all, and
# who has no python3 has it without drawings.
manual_html =
if HAVE_MAKEINFO
manual_html += $(HTMLS)
install_local += install-html
endif

# TeX reads no SVG: without a converter the PDF has the pictures of info.
doc/.pictures: $(manual_svg)
	@$(MKDIR_P) doc; for p in $^; do n=$${p##*/}; \
	  $(RSVG_CONVERT) -f pdf -o doc/$${n%.svg}.pdf $$p || exit 1; done
	@touch $@
if PDF_PICTURES
$(PDFS): doc/.pictures
texi2pdf_pictures = --command='@set pictures'
endif
# distcheck makes no DVI, which would take a TeX.
AM_DISTCHECK_DVI_TARGET = html
CLEANFILES += doc/.pictures $(manual_pictures:%=doc/%.pdf)
html-clean-pictures:
	test doc -ef "$(srcdir)/doc" || rm -f $(manual_svg)
mostlyclean-local: html-clean-pictures
.PHONY: html-clean-pictures

# What the program says of its deck; a text that did not change keeps its time.
# Tarballs have it, and the pictures, for those who compile for another machine
# or have no python3.
all-local: doc/deck.md $(manual_html)
CLEANFILES += doc/deck.md doc/deck.texi doc/kinds.texi $(drawn)
if CROSS_COMPILING
doc/deck.md doc/deck.texi doc/kinds.texi:
	@echo "$@ is not made: the program does not run here" >&2
else
doc/deck.md: say = help deck
doc/deck.texi: say = help deck --texinfo
doc/kinds.texi: say = help model --texinfo
doc/deck.md doc/deck.texi doc/kinds.texi: $(tessera_sources) | tessera$(EXEEXT)
	@$(MKDIR_P) doc
	$(AM_V_GEN)./tessera$(EXEEXT) $(say) > $@.new
	@if cmp -s $@.new $@; then rm -f $@.new; else mv -f $@.new $@; fi
endif
$(INFO_DEPS): $(manual_pictures:%=doc/%.txt)
$(drawn) &: jobs/manual-pictures
	@$(MKDIR_P) doc
	$(AM_V_GEN)$(PYTHON3) $< doc
