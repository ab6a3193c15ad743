-- How long do requests wait for their first token? As in the report: the median of an even number is between the
-- two in the middle, and 90 (99) % of the requests took at most p90 (p99).
WITH ordered AS (
    SELECT job, first_token_ns, total_ns,
           row_number() OVER (PARTITION BY job ORDER BY first_token_ns) AS place,
           count(*) OVER (PARTITION BY job) AS requests
    FROM requests
    WHERE first_token_ns IS NOT NULL AND aborted = 0
)
SELECT job, max(requests) AS requests,
       CAST(floor(avg(CASE WHEN place * 2 BETWEEN requests AND requests + 2
                           THEN first_token_ns END)) AS BIGINT) AS p50_ns,
       min(CASE WHEN place * 100 >= requests * 90 THEN first_token_ns END) AS p90_ns,
       min(CASE WHEN place * 100 >= requests * 99 THEN first_token_ns END) AS p99_ns,
       max(first_token_ns) AS max_ns, max(total_ns) AS max_total_ns
FROM ordered
GROUP BY job
ORDER BY job
