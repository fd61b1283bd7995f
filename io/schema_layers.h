/* schema_layers.h - the schema's rows of an element of model.layers that all
 * kinds have: schema.c has them in its list.  A kind's own are its file's
 * (src/model/layers). */
KEY(LAYER, "name", name, STRING, NULL, "", 1, 0, NULL,
    "of the layer, and of what it gives"),
    KEY(LAYER, "kind", kind, STRING, NULL, "", 1, 0, NULL,
        "what it does: tessera help model lists the kinds"),
    LIST(LAYER, in, STRINGS,
         "what it reads: inputs (dense, embeddings, fields, a feature) and "
         "layers above it"),
    LIST(LAYER, query, STRINGS, "of kinds that take one"),
    LIST(LAYER, gate, STRINGS, "of kinds that take one"),
    LIST(LAYER, items, STRINGS, "of kinds that take them"),
    LIST(LAYER, before, STRINGS,
         "of kind prepend: vectors that become each sample's first tokens"),
    WORD(LAYER, times, STRING, "", NULL,
         "of kinds that take them: a feature, alone in a table of one row, "
         "whose ids are not looked up but say when each of a sample's tokens "
         "was, and with one more when it is asked what comes next"),
    WORD(LAYER, parameters, STRING, "", NULL,
         "names of its parameters, {i} being a number, {2i} twice that; \"\": "
         "NAME.{i}"),
    WORD(LAYER, last_parameters, STRING, "", NULL,
         "of its last layer's, where they differ"),
    WORD(LAYER, parameter_group, STRING, "", NULL,
         "they are gathered and reduced as GROUP.i; \"\": NAME.i"),
    KEY(LAYER, "optimizer.kind", optimizer.kind, STRING, NULL, "", 1, 0,
        TS_CHOICES(TS_DENSE_OPTIMS), "of its parameters"),
    NUMBER_OF(LAYER, "optimizer.lr", optimizer.lr, FLOAT, NULL, "", 0, 1e9,
              "learning rate"),
    NUMBER_OF(LAYER, "optimizer.eps", optimizer.eps, FLOAT, NULL, "", 0, 1e9,
              "as optimizer.eps"),
    NUMBER_OF(LAYER, "optimizer.beta1", optimizer.beta1, FLOAT, NULL, "", 0,
              0.9999999, "as optimizer.beta1"),
    NUMBER_OF(LAYER, "optimizer.beta2", optimizer.beta2, FLOAT, NULL, "", 0,
              0.9999999, "as optimizer.beta2"),
    NUMBER_OF(LAYER, "optimizer.momentum", optimizer.momentum, FLOAT, NULL, "",
              0, 1, "as optimizer.momentum"),
    NUMBER_OF(LAYER, "optimizer.eta", optimizer.eta, FLOAT, NULL, "", 0, 1e9,
              "as optimizer.eta"),
    NUMBER_OF(LAYER, "optimizer.weight_decay", optimizer.weight_decay, FLOAT,
              NULL, "", 0, 1e9, "as optimizer.weight_decay"),
    WORD_OF(LAYER, "optimizer.weight_decay_mode", optimizer.weight_decay_mode,
            CHOICE, "l2", "none|l2|decoupled", "how weight_decay enters"),
    NUMBER(LAYER, l2, FLOAT, "0.0", "", 0, 1e9,
           "weight decay of its matrices, beside its optimizer's"),
    WORD_OF(LAYER, "init.kind", init_kind, STRING, "",
            "|xavier_uniform|xavier_normal|kaiming_uniform|kaiming_normal|"
            "uniform|normal|constant",
            "of its matrices, as PyTorch's functions of that name; \"\": as "
            "the kind has it"),
    NUMBER_OF(LAYER, "init.scale", init_scale, FLOAT, "0.0", "", -1e6, 1e6,
              "gain of xavier and kaiming, bound of uniform, deviation of "
              "normal (0: 1); the constant"),
    FLAG(LAYER, frozen, "false", "its parameters stay as they are")
