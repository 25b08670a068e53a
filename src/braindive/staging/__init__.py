"""Where people stand, with errors: the marginal model of the pooled measurements."""
