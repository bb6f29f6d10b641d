-- Finds ways in which other users can run code with the rights of all users of the tables. There are two: a stranger
-- owns a table, or a table has a trigger. The statement needs no right on the tables, and runs no code of other users.
SELECT 'stranger', concat(
    relname, ' belongs to ', quote_ident(pg_get_userbyid(relowner)),
    ', who owns neither the database nor the schema, and can run code with the rights of all who use it'
)
FROM pg_class
WHERE oid IN (to_regclass('{mutexes_text}'), to_regclass('{runs_text}')) AND relowner NOT IN (
    SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
    UNION ALL SELECT datdba FROM pg_database WHERE datname = current_database()
    UNION ALL SELECT nspowner FROM pg_namespace WHERE pg_namespace.oid = relnamespace
)
UNION ALL
SELECT 'stranger', concat(relname, ' has the trigger ', quote_ident(tgname), ', which runs with the rights of all who use it')
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND tgrelid IN (to_regclass('{mutexes_text}'), to_regclass('{runs_text}'));
