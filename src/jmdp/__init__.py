"""Joint Markov decision processes: same luck, different action."""

from jmdp.coupling import Independent, Local, Synchronous
from jmdp.evaluate import evaluate
from jmdp.evaluation import Certificate, Evaluation, Outcome
from jmdp.gaps.gap import Gap
from jmdp.interval import Interval, Verdict
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

__version__ = "0.1.0"
