"""Why a job is where it is: facts in, words out."""
