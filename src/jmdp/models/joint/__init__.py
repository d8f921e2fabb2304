"""Scenario tables with given marginals, one file for each rule that `jmdp.models.couple` offers."""
