"""Names of attributes, and values that are fixed, as readers of a run know them."""

# Of every session.
PID: str
# Of a session: which run it is part of.
RUN: str
PROCESS: str
LAUNCH: str
# Of a session: how it ended, which is one of the four, and its exit code.
ENDED_BY: str
RETURN: str
EXIT: str
EXCEPTION: str
SHUTDOWN: str
EXIT_CODE: str
# Of a session: what the program could do to have its loops recorded.
HINT: str
# Of spans in which work was handed to a device that was not waited for, and its value.
TIMING: str
DISPATCH: str
# Of a tensor: why there are no statistics.
UNAVAILABLE: str
# Of a session: whether snapshots are wanted, why there are none, and how many were taken.
SNAPSHOTS: str
SNAPSHOTS_REASON: str
SNAPSHOT_RECORDS: str
