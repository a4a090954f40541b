"""What model servers keep on disk of the calls that they serve.

The capture ledger: which policy calls each episode has had, without a token of what was said. `rows` is what
is known of a call, `ledger` what is kept of all episodes, `store` the files that say so after a crash; a
checkpoint takes the rows along. `staging` has what was generated of calls that a checkpoint cut.
"""
