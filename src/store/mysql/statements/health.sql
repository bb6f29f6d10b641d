-- Returns facts about the server and the table, as rows of a name and a value. `ahead` says how far the latest grant of
-- a held name lies in the future, in microseconds.
--
-- schema:  the database of the table, or an empty text for the database of the connection
-- table:   the name of the table in this database
SELECT 'version', VERSION();
SELECT 'ahead', TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MAX(acquired_at)) FROM {mutexes}
WHERE expires_at > UTC_TIMESTAMP(6) AND NOT released;
SELECT 'engine', engine FROM information_schema.tables
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{table}';
SELECT 'key', column_name FROM information_schema.key_column_usage
WHERE constraint_name = 'PRIMARY' AND table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{table}';
SELECT 'collation', collation_name FROM information_schema.columns
WHERE column_name = 'name' AND table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{table}'
