"""What members take unless told, on which numbers without it rely, and their sources.

Every line is a kind, a name, its options with their defaults, and keys of citations.
A new member needs its line in `DEFAULTS`; the test prints it.
"""

import pytest

from troth import lookup

DEFAULTS = """
data celeba label='Smiling' group='' shortcut='' side=64 identities=0 at_least=1
  [liu2015celeba]
data cifar10 [krizhevsky2009learning]
data coil20 side=128 [nene1996columbia]
data colored base='mnist' base_options={} pool='train' maps='client' correlation=0.98
  spread=0.005 [wang2021robust] [nam2020learning]
data csv path label owner='' group='' split='' kind='auto' drop=[] categorical=[]
  missing=['', '?', 'NA', 'NaN', 'nan', 'null', 'None'] delimiter=',' columns=[]
  classes=0
data digits [alpaydin1998digits]
data fashion_mnist [xiao2017fashion]
data femnist writers=0 [caldas2018leaf] [cohen2017emnist]
data heart_disease label='presence' encode=True zeros_missing=True [janosi1988heart]
data image_folder path levels=['owner', 'class'] colors='rgb' size=0 classes=[]
data leaf path shape=[] classes=0 scale=0.0 [caldas2018leaf]
data linear_regression clients=10 examples=100 dim=5 sigma=1.0 tau=0.5 orthogonal=False
  test=0.2 hostile=0 tau_a=5.0 [li2021ditto]
data made_digits clients=1000 per_client=20 style=1.0 noise=0.1 [alpaydin1998digits]
data mnist [lecun1998gradient]
data mnist_by_writer part='train' [yadav2019cold] [lecun1998gradient]
data npz path scale=0.0 classes=0
data point_estimation clients=10 examples=100 sigma=1.0 tau=0.5 theta=0.0 test=0.2
  hostile=0 tau_a=5.0 [li2021ditto]
data stackoverflow clients=400 examples=10000 words=10000 tags=500 label='first'
  untagged='keep' [tff2019stackoverflow] [li2021ditto]
data table path label owner='' group='' split='' kind='auto' drop=[] categorical=[]
  missing=['', '?', 'NA', 'NaN', 'nan', 'null', 'None'] classes=0 x='' scale=0.0
data vehicle [duarte2004vehicle] [li2021ditto]
partition classes clients per_client=5 recipe='even' size=0 assign='number'
  [li2021ditto] [li2022niid]
partition dirichlet clients alpha=0.5 by='class' min_size=10 [yurochkin2019bayesian]
  [li2022niid] [hsu2019measuring]
partition draws sizes [farhadkhani2022equivalence]
partition fixed_sizes sizes
partition identities per_client=0 clients=0 remainder='drop' [wang2021robust]
partition iid clients [mcmahan2017communication]
partition inner_dirichlet sizes alpha=0.5 [acar2021federated]
partition natural [caldas2018leaf]
partition quantity clients law='lognormal' sigma=1.0 exponent=2.0 min_size=2
  [li2020fedprox] [li2022niid]
partition shard clients per_client=2 size=0 incomplete=False [mcmahan2017communication]
features federated center=True scale=True impute='mean' min_values=2
  [chan1983algorithms]
features none
features own center=True scale=True impute='mean'
corruption auto [li2021ditto]
corruption backdoor target=0 size=3 corner='bottom_right' value=1.0 [gu2019badnets]
  [bagdasaryan2020backdoor]
corruption flip_labels [fang2020local]
corruption from_file path take='fill' mix=False repeat=1 weight=1.0
corruption noise_features std=1.0
corruption random_labels [li2021ditto]
corruption shift_labels offset=1
deformation affine interpolation='bilinear' padding='zeros' frame='edges'
  [alfarra2022deformrs]
deformation rotation interpolation='bilinear' padding='zeros' frame='edges'
  [alfarra2022deformrs]
deformation translation interpolation='bilinear' padding='zeros' frame='edges'
  [alfarra2022deformrs]
augment affine sigma=0.1 interpolation='bilinear' padding='zeros' frame='edges'
  [alfarra2022certified]
augment crop padding=4 fill='zero' [he2016deep]
augment flip p=0.5
augment noise sigma=0.1 [bishop1995training]
augment rotation sigma=0.3141592653589793 interpolation='bilinear' padding='zeros'
  frame='edges' [alfarra2022certified]
augment translation sigma=0.1 interpolation='bilinear' padding='zeros' frame='edges'
  [alfarra2022certified]
model celeba_cnn channels=32 blocks=4 [caldas2018leaf]
model cnn channels=[32, 64] widths=[1024] kernel=5 init='glorot' dropout=[]
  [li2021ditto] [glorot2010understanding]
model linear bias=True zero=False
model mlp widths=[128] dropout=0.0
model resnet18 width=64 norm='batch' [he2016deep] [alfarra2022certified]
model svm l2=0.01 [li2021ditto]
model vgg13_bn width=64 widths=[4096, 4096] dropout=0.5 [simonyan2015very]
  [farhadkhani2022equivalence]
loss absolute
loss auto
loss cross_entropy smoothing=0.0 [szegedy2016rethinking]
loss huber delta=1.0 [huber1964robust]
loss multi_label
loss squared
optimizer adam beta1=0.9 beta2=0.999 eps=1e-08 [kingma2015adam]
optimizer momentum beta=0.9 [polyak1964some]
optimizer sgd
schedule constant
schedule cosine floor=0.0 [loshchilov2017sgdr]
schedule steps every factor=0.5 floor=0.0
regularizer fisher power=1.0 batches=1 [kirkpatrick2017overcoming]
regularizer kl [yu2020salvaging]
regularizer l2 [farhadkhani2022equivalence]
regularizer l2sq [li2021ditto]
regularizer smooth_l2 delta=1.0 [farhadkhani2022equivalence]
adversarial pgd eps=0.1 step=0.0 iterations=10 start='none' norm='linf' bounds=[0.0,
  1.0] [madry2018towards] [wang2021robust]
solver fedavg [mcmahan2017communication]
solver fedprox mu=0.01 [li2020federated]
solver scaffold option='II' rate=1.0 [karimireddy2020scaffold]
personalizer apfl alpha=0.5 adaptive=False mix='moving' [deng2020adaptive]
  [li2020multitask]
personalizer coupled lam=1.0 nu=0.0 fit='sum' unit=1.0 solve='step' report='after'
  [farhadkhani2022equivalence]
personalizer ditto lam=1.0 anchor='shared' choose='side_by_side' candidates=[0.1, 1.0,
  2.0] fallback=1.0 few=4 [li2021ditto] [li2020multitask]
personalizer ditto_finetune lam=1.0 keep='last' select='epoch' [li2021ditto]
personalizer ewc lam=1.0 batches=4 [kirkpatrick2017overcoming]
personalizer fedbn [li2021fedbn]
personalizer fedper layers=[] last=1 [arivazhagan2019federated]
personalizer fedrep layers=[] last=1 [collins2021exploiting]
personalizer finetune keep='last' select='epoch' [li2021ditto]
personalizer group_dro step=0.01 keep='last' select='epoch' without='refuse'
  [sagawa2020distributionally]
personalizer l2sgd lam=1.0 variant='partial' p=0.5 [hanzely2020federated] [li2021ditto]
personalizer local
personalizer mapper weights=[0.25, 0.5, 0.75] solve='together' [mansour2020three]
personalizer mixture lam=0.5 start='own' distance='sum' [alfarra2022certified]
  [hanzely2020federated]
personalizer none
personalizer per_fedavg variant='first_order' alpha=0.01 delta=0.001 same_batch=False
  [fallah2020personalized]
personalizer pfedme lam=1.0 inner=5 tol=0.0 [dinh2020personalized]
personalizer skl lam=1.0 keep='last' select='epoch' [yu2020salvaging]
personalizer transfer w1=1.0 w2=0.1 candidates=[0.01, 0.1, 1.0, 10.0] against='shared'
  keep='transferable' select='epoch' [wang2021robust]
personalizer upweight keep='last' select='epoch' without='refuse'
  [sagawa2020distributionally]
  [wang2021robust]
attack alie z=0.0 [baruch2019little]
attack counter_gradient target aim='shared' eta='auto' over='auto' radius='auto'
  lam='auto' knows='history' infers='auto' pace=1.0 [farhadkhani2022equivalence]
attack frozen_model target lam='auto' regularizer='auto' delta='auto'
  [farhadkhani2022equivalence]
attack gaussian mean=0.0 std=1.0 [blanchard2017machine]
attack infinite value='inf'
attack ipm epsilon=0.5 [xie2020fall]
attack mimic client=-1 [karimireddy2022byzantine]
attack min_max direction='std' [shejwalkar2021manipulating]
attack min_sum direction='std' [shejwalkar2021manipulating]
attack model_replacement factor=0.0 [bagdasaryan2020backdoor]
attack optimal_alie evaluations=20 [baruch2019little] [shejwalkar2021manipulating]
  [allouah2023fixing]
attack optimal_ipm evaluations=20 [xie2020fall] [shejwalkar2021manipulating]
  [allouah2023fixing]
attack random_update scale=1.0 std=0.0 [li2021ditto]
attack sign_flip factor=1.0 of='own' [allenzhu2021byzantine]
filter bucketing s=2 [karimireddy2022byzantine]
filter clip radius=0.0 [sun2019can]
filter drop_invalid
filter nnm f='auto' strict=True [allouah2023fixing]
filter normalize length=1.0 [hu2022federated]
filter plausible radius='auto' slack=1e-05 [farhadkhani2022equivalence]
aggregator afl lr=0.1 [mohri2019agnostic]
aggregator bulyan f='auto' strict=True [elmhamdi2018hidden]
aggregator centered_clipping tau=10.0 iterations=1 remember=True f='auto' strict=True
  [karimireddy2021learning]
aggregator fedmgda eps=0.1 [hu2022federated]
aggregator geometric_median nu=1e-06 tolerance=1e-08 iterations=100 f='auto' strict=True
  [pillutla2022robust]
aggregator k_loss f='auto' strict=True [li2021ditto]
aggregator k_norm f='auto' strict=True [li2021ditto]
aggregator krum f='auto' neighbors='blanchard' ties='id' strict=True
  [blanchard2017machine]
aggregator mda f='auto' limit=1000000 strict=True [rousseeuw1985multivariate]
  [elmhamdi2022genuinely]
aggregator meamed f='auto' strict=True [xie2018generalized]
aggregator mean [mcmahan2017communication]
aggregator median f='auto' strict=True [yin2018byzantine]
aggregator multi_krum f='auto' m=0 neighbors='blanchard' ties='id' strict=True
  [blanchard2017machine]
aggregator qffl q=1.0 lr=1.0 [li2020fair]
aggregator sum [farhadkhani2022equivalence]
aggregator term t=1.0 [li2021tilted]
aggregator trimmed_mean f='auto' strict=True [yin2018byzantine]
aggregator weighted_mean [mcmahan2017communication]
server adagrad lr=0.1 beta1=0.0 tau=0.001 [reddi2021adaptive]
server adam lr=0.1 beta1=0.9 beta2=0.99 tau=0.001 [reddi2021adaptive]
server sgd lr=1.0 momentum=0.0
server yogi lr=0.1 beta1=0.9 beta2=0.99 tau=0.001 [reddi2021adaptive]
sampler ditto [li2021ditto]
sampler ditto_fixed [li2021ditto]
sampler size
sampler uniform
score calibration_error bins=15 [guo2017calibration]
score f1
score recall
score sensitivity positive=1
score specificity positive=1
metric best10 [li2020fair]
metric deciles
metric jain [jain1984quantitative]
metric mean [li2021ditto]
metric std [li2021ditto]
metric weighted
metric worst10 [li2020fair]
tracker mlflow uri='' experiment='troth'
tracker tensorboard folder=''
tracker wandb project='troth' entity='' mode='' folder=''
"""

MEMBERS = [(kind, name) for kind in lookup.FOLDERS for name in lookup.names(kind)]


def recorded():
    """The line of each member, with those that continue it: kind and name → line."""
    lines = DEFAULTS.replace("\n  ", " ").strip().splitlines()
    return {tuple(line.split()[:2]): " ".join(line.split()) for line in lines}


@pytest.mark.parametrize(("kind", "name"), MEMBERS)
def test_defaults_and_sources_stay(kind, name):
    words = [kind, name]
    for option in lookup.options(lookup.find(kind, name)).values():
        value = "" if option.default is option.empty else f"={option.default!r}"
        words += f"{option.name}{value}".split()
    entries = lookup.about(kind, name).citations
    words += [f"[{each.split('{')[1].partition(',')[0]}]" for each in entries]
    line, before = " ".join(words), recorded().get((kind, name))
    assert before, f"{name} is new: add this line to DEFAULTS in this file: {line}"
    assert line == before, "experiments that do not set the option would change"


def test_every_line_is_of_a_member():
    lines = DEFAULTS.replace("\n  ", " ").strip().splitlines()
    assert [tuple(line.split()[:2]) for line in lines] == MEMBERS, "by kind, then name"
