"""Joint moments of returns for every state of a simulator, learned by regressions. Needs ``jmdp[learn]``."""

from jmdp.methods.learned.learned_moments import LearnedMoments
from jmdp.methods.learned.learned_result import LearnedResult, RegressedEvaluation

__all__ = ["LearnedMoments", "LearnedResult", "RegressedEvaluation"]
