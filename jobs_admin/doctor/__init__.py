"""The checks of an installation, for `trellis-jobs doctor` and the RPC Jobs.Doctor."""
