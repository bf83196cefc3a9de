"""The options of all rules with their defaults, on which runs without them rely."""

from troth import lookup

DEFAULTS = """
aggregator afl lr=0.1
aggregator bulyan f='auto' strict=True
aggregator centered_clipping tau=10.0 iterations=1 remember=True f='auto' strict=True
aggregator fedmgda eps=0.1
aggregator geometric_median nu=1e-06 tolerance=1e-08 iterations=100 f='auto' strict=True
aggregator k_loss f='auto' strict=True
aggregator k_norm f='auto' strict=True
aggregator krum f='auto' neighbors='blanchard' ties='id' strict=True
aggregator mda f='auto' limit=1000000 strict=True
aggregator meamed f='auto' strict=True
aggregator mean
aggregator median f='auto' strict=True
aggregator multi_krum f='auto' m=0 neighbors='blanchard' ties='id' strict=True
aggregator qffl q=1.0 lr=1.0
aggregator sum
aggregator term t=1.0
aggregator trimmed_mean f='auto' strict=True
aggregator weighted_mean
attack alie z=0.0
attack counter_gradient target aim='shared' eta='auto' over='auto' radius='auto'
  lam='auto' knows='history' infers='auto' pace=1.0
attack frozen_model target lam='auto' regularizer='auto'
attack gaussian mean=0.0 std=1.0
attack infinite value='inf'
attack ipm epsilon=0.5
attack mimic client=-1
attack min_max direction='std'
attack min_sum direction='std'
attack model_replacement factor=0.0
attack optimal_alie evaluations=20
attack optimal_ipm evaluations=20
attack random_update scale=1.0 std=0.0
attack sign_flip factor=1.0 of='own'
filter bucketing s=2
filter clip radius=0.0
filter drop_invalid
filter nnm f='auto' strict=True
filter normalize length=1.0
filter plausible radius='auto' slack=1e-05
server adagrad lr=0.1 beta1=0.0 tau=0.001
server adam lr=0.1 beta1=0.9 beta2=0.99 tau=0.001
server sgd lr=1.0 momentum=0.0
server yogi lr=0.1 beta1=0.9 beta2=0.99 tau=0.001
"""


def test_defaults_stay():
    words = []
    for kind in ("aggregator", "attack", "filter", "server"):
        for name in lookup.names(kind):
            words += [kind, name]
            for option in lookup.options(lookup.find(kind, name)).values():
                value = "" if option.default is option.empty else f"={option.default!r}"
                words.append(f"{option.name}{value}")
    assert words == DEFAULTS.split()
