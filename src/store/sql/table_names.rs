//! The names of the two tables.

use std::fmt::{Display, Write};

use crate::base::error::InvalidOptions;

/// The name of the table in the documentation, which is also the default.
pub(crate) const TABLE: &str = "soloist_mutexes";

/// Checks the name of a table. It can begin with the name of a schema or a database, as in `app.mutexes`.
pub(super) fn check_name(name: &str) -> Result<(), InvalidOptions> {
    let is_part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        (1..=48).contains(&part.len()) && part.bytes().all(plain) && !part.as_bytes()[0].is_ascii_digit()
    };
    if name.split('.').count() <= 2 && name.split('.').all(is_part) {
        return Ok(());
    }
    let what = "the name of a table for mutexes has to be 1 to 48 of a-z, 0-9 and _, and its first character is not a digit; a \
                schema may stand before it, as in `table(\"app.mutexes\")` or ?table=app.mutexes";
    Err(InvalidOptions::new(what))
}

/// Returns two texts: the name of the schema, which may be empty, and the name of the table without the schema.
pub(super) fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("", name))
}

/// The names of two tables, quoted for statements: the table of mutexes, and the table of the log of runs.
pub(crate) struct Tables {
    mutexes: String,
    runs: String,
    /// The beginning of the names of the indexes: the name of the table of mutexes, without its schema and quotes.
    index: String,
}

impl Tables {
    /// Makes the quoted names of both tables. Each name begins with `schema`, which is empty, or is a quoted name and a
    /// dot.
    pub(crate) fn new(name: &str, quote: char, schema: &str) -> Self {
        let quoted = |name: &str| {
            let parts: Vec<String> = name.split('.').map(|part| format!("{quote}{part}{quote}")).collect();
            format!("{schema}{}", parts.join("."))
        };
        Self { mutexes: quoted(name), runs: quoted(&format!("{name}_runs")), index: split_name(name).1.to_owned() }
    }

    /// Returns the statements that create these tables. `schema` has the statements for the default names.
    pub(super) fn in_schema(&self, schema: &str) -> String {
        let mut parts = schema.split(TABLE);
        let mut renamed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = match part.strip_prefix("_runs") {
                Some(rest) => (&self.runs, rest),
                None if part.starts_with('_') => (&self.index, part),
                None => (&self.mutexes, part),
            };
            renamed.extend([name, rest]);
        }
        renamed
    }

    /// Returns a statement in one line. Its placeholders, such as `{rows}`, are replaced by these values and by the
    /// tables' names. `{mutexes_text}` and `{runs_text}` are the names for a text in quotes.
    pub(super) fn fill(&self, statement: &str, values: &[(&str, &dyn Display)]) -> String {
        let [mutexes_text, runs_text] = [&self.mutexes, &self.runs].map(|name| name.replace('\'', "''"));
        let names: [(&str, &dyn Display); 5] = [
            ("mutexes", &self.mutexes),
            ("runs", &self.runs),
            ("index", &self.index),
            ("mutexes_text", &mutexes_text),
            ("runs_text", &runs_text),
        ];
        let statement = one_line(statement);
        let mut parts = statement.split('{');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (place, rest) = part.split_once('}').expect("each place ends");
            let value = names.iter().chain(values).find(|(known, _)| *known == place);
            let (_, value) = value.expect("each place has a value");
            let _ = write!(filled, "{value}{rest}"); // Writing to a text never fails.
        }
        filled
    }
}

/// Returns statements in one line, without their comments.
fn one_line(statements: &str) -> String {
    let lines = statements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_plain_name() {
        for right in ["soloist_mutexes", "app.mutexes", "_1"] {
            assert!(check_name(right).is_ok(), "{right}");
        }
        for wrong in ["", ".", "a.", "a.b.c", "A", "a b", "1a", "a`b", "a\"b", "ü", &"x".repeat(49)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_of_another_name_has_a_schema_of_its_own() {
        let schema = "-- Why\nCREATE TABLE soloist_mutexes (\n  KEY soloist_mutexes_token (token));\n\
                      CREATE TABLE soloist_mutexes_runs ();\n";
        for (name, mutexes, runs, index) in [
            ("app.mutexes", "`app`.`mutexes`", "`app`.`mutexes_runs`", "mutexes_token"),
            (
                "soloist_mutexes_runs",
                "`soloist_mutexes_runs`",
                "`soloist_mutexes_runs_runs`",
                "soloist_mutexes_runs_token",
            ),
            (
                "soloist_mutexes_token",
                "`soloist_mutexes_token`",
                "`soloist_mutexes_token_runs`",
                "soloist_mutexes_token_token",
            ),
        ] {
            let made = Tables::new(name, '`', "").in_schema(schema);
            let expected = format!("CREATE TABLE {mutexes} ( KEY {index} (token)); CREATE TABLE {runs} ();");
            assert_eq!(one_line(&made), expected);
        }
        assert_eq!(Tables::new("order", '"', "public.").mutexes, "public.\"order\"");
    }

    #[test]
    fn a_value_is_not_taken_for_a_place() {
        let statement = "-- which:  {odd}\nSELECT {which}\nFROM {mutexes}, {runs};\n";
        let filled = Tables::new("a", '`', "").fill(statement, &[("which", &"'{runs}'")]);
        assert_eq!(filled, "SELECT '{runs}' FROM `a`, `a_runs`;");
    }
}
