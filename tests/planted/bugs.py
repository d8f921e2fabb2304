"""All planted bugs, in the order of the lists."""

from planted import exact_bugs, sample_bugs, simulator_bugs, tool_bugs

BUGS = [*tool_bugs.BUGS, *exact_bugs.BUGS, *sample_bugs.BUGS, *simulator_bugs.BUGS]
