-- Drops records from the log of runs.
--
-- {which}  a condition for them
DELETE FROM soloist_mutexes_runs WHERE {which};
