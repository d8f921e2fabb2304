"""All planted bugs. The gate plants the first of each folder, so one that is caught in little time comes first."""

from planted import exact_bugs, sample_bugs, simulator_bugs, tool_bugs

BUGS = [*sample_bugs.BUGS, *simulator_bugs.BUGS, *exact_bugs.BUGS, *tool_bugs.BUGS]
