/* schema_outputs.h - the schema's rows of an element of model.outputs: schema.c
 * has them in its list. */
WORD(OUTPUT, name, STRING, "label", NULL, "name of the task"),
    WORD(OUTPUT, label, STRING, "", NULL,
         "column of its labels, which several may share; \"\": name"),
    WORD(OUTPUT, in, STRING, "", NULL,
         "of a graph: the layer that is the output; \"\": the last"),
    WORD(OUTPUT, loss, STRING, "bce",
         "bce|mse|mae|huber|poisson|softmax_cross_entropy|sampled_bce|"
         "sampled_softmax|full_softmax|bpr|cosine_contrastive",
         "binary cross entropy, of numbers, of counts, of classes, or over "
         "items, the rows of a table: see Models in the manual"),
    WORD(OUTPUT, from, STRING, "logit", "logit|probability",
         "of bce: what the model's output is"),
    KEY(OUTPUT, "weight", weight, FLOAT, "1.0", "", 0, 1e9, "uncertainty",
        "of its loss; uncertainty: it is learnt"),
    WORD(OUTPUT, where, STRING, "", NULL,
         "column of 0 and 1: samples with 0 count neither in its loss nor in "
         "its figures; \"\": all count"),
    NUMBER(OUTPUT, smoothing, FLOAT, "0.0", "", 0, 1,
           "of bce: label y becomes y (1 - s) + s / 2; of "
           "softmax_cross_entropy each class gets s / classes"),
    NUMBER(OUTPUT, delta, FLOAT, "1.0", "", 1e-9, 1e9,
           "of huber: errors over it count by their size, not its square"),
    WORD(OUTPUT, items, STRING, "", NULL,
         "of losses over items: the table whose rows they are, or a layer that "
         "makes a vector of an item's features (data.items); \"\": that of "
         "target"),
    WORD(OUTPUT, target, STRING, "", NULL,
         "of losses over items: the feature whose ids are wanted"),
    NUMBER(OUTPUT, negatives, INT32, "1", "items", 1, 1000000,
           "that are drawn for each id of target in training"),
    WORD(OUTPUT, draw, STRING, "uniform", "uniform|frequency|batch",
         "negatives: of all items alike, as often as each is a target in "
         "data.train, or what other targets of the batch want"),
    FLAG(OUTPUT, log_q, "false",
         "of sampled_softmax and draw = \"frequency\" or \"batch\": scores in "
         "training are less the log of each item's share of the targets"),
    NUMBER(OUTPUT, given, INT32, "0", "items", 0, 1000000,
           "that stand behind each id of target in data for evaluation: it is "
           "ranked among them; 0: among all"),
    NUMBER(OUTPUT, first_item, INT, "0", "", 0, 9e15,
           "ids below it are no items: neither drawn nor ranked"),
    LIST(OUTPUT, exclude, STRINGS,
         "features of a sample whose ids are neither drawn nor ranked"),
    FLAG(OUTPUT, draw_excluded, "false",
         "whether training draws ids that exclude keeps from being ranked, and "
         "the sample's other targets, all the same"),
    WORD(OUTPUT, masked, STRING, "", NULL,
         "feature of which ids are hidden in training, to be found again; "
         "target then has these, elsewhere what comes next; \"\": none"),
    NUMBER(OUTPUT, mask_share, FLOAT, "0.2", "", 0, 1,
           "of masked's ids that are hidden, one at least"),
    NUMBER(OUTPUT, mask_id, INT, "0", "", 0, 9e15,
           "that stands for a hidden one: a row of its table, and no item"),
    NUMBER(OUTPUT, temperature, FLOAT, "1.0", "", 1e-6, 1e6,
           "of losses over items: scores are divided by it"),
    FLAG(OUTPUT, normalise, "false",
         "of losses over items: scores are cosines, not products"),
    NUMBER(OUTPUT, margin, FLOAT, "0.9", "", -1, 1,
           "of cosine_contrastive: negatives with less count for nothing"),
    NUMBER(OUTPUT, negative_weight, FLOAT, "1.0", "", 0, 1e9,
           "of cosine_contrastive: of the mean over the negatives")
