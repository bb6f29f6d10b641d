-- Returns facts about the server and the table, as rows of a name and a value. `ahead` says how far the latest grant of
-- a held name lies in the future, in microseconds. `dead` is the number of old versions of rows that the server has not
-- removed yet.
SELECT 'version', current_setting('server_version_num')
UNION ALL SELECT 'replica', pg_is_in_recovery()::text
UNION ALL SELECT 'dead', n_dead_tup::text FROM pg_stat_all_tables WHERE relid = '{mutexes_text}'::regclass
UNION ALL SELECT 'persistence', relpersistence::text FROM pg_class WHERE oid = '{mutexes_text}'::regclass
UNION ALL SELECT 'key', attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    WHERE indrelid = '{mutexes_text}'::regclass AND indisprimary
UNION ALL SELECT 'ahead', (extract(epoch FROM least(greatest(max(acquired_at), 'epoch'), '9999-12-31') - now()) * 1000000)::bigint::text
    FROM {mutexes} WHERE expires_at > now() AND NOT released
UNION ALL SELECT 'collation', collname::text FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE attrelid = '{mutexes_text}'::regclass AND attname = 'name';
