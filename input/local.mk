# Decks to start from and topologies, beside each other once installed, too: a
# deck includes others, and names topologies, by paths from its own folder.
nobase_dist_pkgdata_DATA += \
  input/adult.deck \
  input/adult_graph.deck \
  input/avazu.deck \
  input/bench_bags.deck \
  input/bench_cache.deck \
  input/bench_ctr.deck \
  input/bench_dcn.deck \
  input/bench_sparsenn.deck \
  input/criteo.deck \
  input/example.deck \
  input/ml100k.deck \
  input/ml100k_graph.deck \
  input/mlperf_dlrm_dcnv2.deck \
  input/mlperf_dlrm_dcnv2_small.deck \
  input/mlperf_hstu.deck \
  input/mlperf_hstu_small.deck \
  input/quickstart.deck \
  input/serve.py \
  input/topology_example \
  input/topology_h200 \
  $(zoo_decks)
