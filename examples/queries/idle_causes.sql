-- What did the host do while the GPUs were idle?
SELECT job, run, stage, cause, line, percent, error_percent, idle_ns
FROM idle_causes
ORDER BY job, run, stage, percent DESC, cause, line
