-- Tells of the server and the table: what, and how it is.
SELECT 'time', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text
UNION ALL SELECT 'version', current_setting('server_version_num')
UNION ALL SELECT 'replica', pg_is_in_recovery()::text
UNION ALL SELECT 'persistence', relpersistence::text FROM pg_class WHERE oid = 'soloist_mutexes'::regclass
UNION ALL SELECT 'key', attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    WHERE indrelid = 'soloist_mutexes'::regclass AND indisprimary
UNION ALL SELECT 'collation', collname::text FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE attrelid = 'soloist_mutexes'::regclass AND attname = 'name';
