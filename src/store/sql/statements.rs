//! The SQL statements, with the table's name in them and places for the values of a call; and the name of the table.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::store::event_mutex::warning::StoreWarning;

/// How long one call takes at most, unless it is set.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// The table's name in the files, and the default.
pub(crate) const TABLE: &str = "soloist_mutexes";

/// That of the log of runs, whose name is made of the other's.
const RUNS: &str = "soloist_mutexes_runs";

/// Stands for that while the other is being set.
const RUNS_MARK: &str = "\u{2}";

/// Stands before the name of a table that is given without its schema, until a connection has found that.
#[cfg(any(feature = "postgres", test))]
pub(crate) const SCHEMA_MARK: &str = "\u{3}";

/// The name of a table, perhaps with that of its schema or database before it.
pub(crate) struct TableName(Box<str>);

impl TableName {
    pub(crate) fn new(name: &str) -> Result<Self, InvalidOptions> {
        let is_part = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            (1..=48).contains(&part.len()) && part.bytes().all(plain) && !part.as_bytes()[0].is_ascii_digit()
        };
        let parts = name.split('.').count();
        if parts <= 2 && name.split('.').all(is_part) {
            return Ok(Self(name.into()));
        }
        let what = "the name of a table for mutexes is 1 to 48 of a-z, 0-9 and _, no digit first, and may have that of \
                    its schema before it, as in app.mutexes";
        Err(InvalidOptions::new(what))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// This name in the place of the one in the files, with `mark` before it if it has no schema.
    fn set_in(&self, text: &str, quote: char, mark: &str) -> String {
        let mark = if self.0.contains('.') { "" } else { mark };
        let quoted = |name: &str| {
            let parts: Vec<String> = name.split('.').map(|part| format!("{quote}{part}{quote}")).collect();
            format!("{mark}{}", parts.join("."))
        };
        let text = text.replace(RUNS, RUNS_MARK).replace(TABLE, &quoted(&self.0));
        text.replace(RUNS_MARK, &quoted(&format!("{}_runs", self.0)))
    }

    /// The name of its schema, if there is one, and its own.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.0.split_once('.').unwrap_or(("", &self.0))
    }
}

/// How many names a prepared look has places for: a lease, a claim, and names that exclude them.
pub(crate) const PLACES: usize = 4;

/// Statements with `$1`, `$2` … where their values belong, so that they read the same for each call and can be prepared.
pub(crate) struct Call {
    pub(crate) statements: String,
    pub(crate) values: Values,
}

/// The values of a call, in order.
#[derive(Default)]
pub(crate) struct Values(Vec<Literal>);

/// A plain text, or a number.
pub(crate) enum Literal {
    Text(String),
    Number(String),
}

impl Values {
    /// The place of one more text.
    pub(super) fn text(&mut self, text: impl fmt::Display) -> String {
        self.place(Literal::Text(text.to_string()))
    }

    /// The place of one more number.
    pub(super) fn number(&mut self, number: impl fmt::Display) -> String {
        self.place(Literal::Number(number.to_string()))
    }

    /// The places of more texts. Nothing is in the list of none.
    pub(super) fn texts(&mut self, texts: impl IntoIterator<Item = impl fmt::Display>) -> String {
        let places: Vec<String> = texts.into_iter().map(|text| self.text(text)).collect();
        if places.is_empty() { "NULL".to_owned() } else { places.join(", ") }
    }

    fn place(&mut self, value: Literal) -> String {
        self.0.push(value);
        format!("${}", self.0.len())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Literal> {
        self.0.iter()
    }
}

impl Call {
    /// The statements with their values in them.
    pub(crate) fn as_text(&self) -> String {
        self.with(ToString::to_string)
    }

    /// The statements with this in the place of each value.
    pub(crate) fn with(&self, each: impl Fn(&Literal) -> String) -> String {
        let mut text = String::with_capacity(2 * self.statements.len());
        let mut parts = self.statements.split('$');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let end = part.find(|character: char| !character.is_ascii_digit()).unwrap_or(part.len());
            let value = part[..end].parse().ok().and_then(|number: usize| self.values.0.get(number.checked_sub(1)?));
            text.push_str(&value.map(&each).unwrap_or_default());
            text.push_str(&part[end..]);
        }
        text
    }
}

impl Literal {
    #[cfg(feature = "mysql")]
    pub(crate) fn as_str(&self) -> &str {
        let (Self::Text(text) | Self::Number(text)) = self;
        text
    }
}

/// As it stands in a statement.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Number(number) => f.write_str(number),
        }
    }
}

/// What one row says, column by column, as text.
pub(crate) type TextRow = Vec<String>;

/// What is said to a server of one kind.
pub(crate) struct Dialect {
    /// What it is called, as in "is it a mysql server?".
    pub(crate) kind: &'static str,
    /// What the store is called.
    pub(crate) store: &'static str,
    /// What stands around a table's name.
    pub(crate) quote: char,
    /// What stands before the name of a table that has no schema: `SCHEMA_MARK`, where the server would look for it in
    /// several.
    pub(crate) mark: &'static str,
    /// Makes the table.
    pub(crate) schema: &'static str,
    pub(crate) texts: Texts,
    /// What is to be said of a server and a table of which `health` tells so.
    pub(crate) warnings: fn(&[TextRow]) -> Vec<StoreWarning>,
    /// The code that says that there is no such table, and those that say that it has other columns.
    pub(crate) no_table: &'static str,
    pub(crate) other_columns: &'static [&'static str],
}

macro_rules! statements {
    ($($name:ident),*) => {
        /// The statements as they stand in the files, about a table that is called `soloist_mutexes`.
        pub(crate) struct Texts {
            $(pub(crate) $name: &'static str,)*
        }

        /// All that a table's server is asked.
        pub(crate) struct Statements {
            /// What makes the table, for people.
            pub(crate) schema: String,
            pub(super) create: Statement,
            $(pub(super) $name: Statement,)*
        }

        /// The files with these names beside the one that says this.
        macro_rules! texts {
            () => {
                $crate::store::sql::statements::Texts { $($name: include_str!(concat!("statements/", stringify!($name), ".sql")),)* }
            };
        }
        pub(crate) use texts;

        impl Statements {
            pub(super) fn new(dialect: &Dialect, table: &TableName) -> Self {
                let texts = &dialect.texts;
                Self {
                    create: Statement::one_line(&schema(dialect, table, dialect.mark)),
                    schema: schema(dialect, table, ""),
                    $($name: Statement::new(texts.$name, table, dialect.quote, dialect.mark),)*
                }
            }
        }
    };
}

statements!(
    look,
    shorten,
    admit,
    row,
    end,
    give_back,
    clean_up,
    health,
    strangers,
    look_at_runs,
    log_runs,
    run_row,
    drop_runs,
    count_skips
);

/// What makes the table, with its comments.
fn schema(dialect: &Dialect, table: &TableName, mark: &str) -> String {
    if table.as_str() == TABLE && mark.is_empty() {
        return dialect.schema.to_owned();
    }
    // The names of the indexes begin with its own, without that of its schema.
    let (_, name) = table.parts();
    let indexes = dialect.schema.replace(RUNS, RUNS_MARK).replace(&format!("{TABLE}_"), "\0");
    table.set_in(&indexes, dialect.quote, mark).replace('\0', &format!("{name}_"))
}

/// Statements without their comments, and without line breaks.
pub(super) struct Statement(String);

impl Statement {
    fn new(text: &str, table: &TableName, quote: char, mark: &str) -> Self {
        Self::one_line(&table.set_in(text, quote, mark))
    }

    pub(super) fn one_line(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|pooled| !pooled.is_empty() && !pooled.starts_with("--"));
        Self(lines.collect::<Vec<_>>().join(" "))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// With what stands for each `{place}`.
    pub(super) fn with(&self, places: &[(&str, &dyn fmt::Display)]) -> String {
        let mut filled = String::with_capacity(self.0.len() + 256);
        let mut parts = self.0.split('{');
        filled.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (place, rest) = part.split_once('}').unwrap_or((part, ""));
            let value = places.iter().find(|(name, _)| *name == place);
            // A text takes all that is written to it.
            let _ = value.map(|(_, value)| write!(filled, "{value}"));
            filled.push_str(rest);
        }
        filled
    }
}

/// Plain statements between quotes, with commas between them. Nothing is in the list of none.
pub(super) fn list(statements: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let statements: Vec<String> = statements.into_iter().map(|text| format!("'{text}'")).collect();
    if statements.is_empty() { "NULL".to_owned() } else { statements.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_plain_name() {
        for right in ["soloist_mutexes", "app.mutexes", "_1"] {
            assert!(TableName::new(right).is_ok(), "{right}");
        }
        for wrong in ["", ".", "a.", "a.b.c", "A", "a b", "1a", "a`b", "a\"b", "ü", &"x".repeat(49)] {
            assert!(TableName::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_of_another_name_has_a_schema_of_its_own() {
        let dialect = Dialect {
            kind: "",
            store: "",
            quote: '`',
            mark: "",
            schema: "-- Why\nCREATE TABLE soloist_mutexes (KEY soloist_mutexes_token (token));\n\
                     CREATE TABLE soloist_mutexes_runs;\n",
            texts: Texts {
                look: "",
                shorten: "",
                admit: "",
                row: "",
                end: "",
                give_back: "",
                clean_up: "",
                health: "",
                strangers: "",
                look_at_runs: "",
                log_runs: "",
                run_row: "",
                drop_runs: "",
                count_skips: "",
            },
            warnings: |_| Vec::new(),
            no_table: "",
            other_columns: &[],
        };
        let statements = Statements::new(&dialect, &TableName::new("app.mutexes").unwrap());
        let expected =
            ["CREATE TABLE `app`.`mutexes` (KEY mutexes_token (token));", "CREATE TABLE `app`.`mutexes_runs`;"];
        assert_eq!(statements.schema, format!("-- Why\n{}\n", expected.join("\n")));
        assert_eq!(statements.create.with(&[]), expected.join(" "));
        assert_eq!(Statements::new(&dialect, &TableName::new(TABLE).unwrap()).schema, dialect.schema);
    }

    #[test]
    fn places_are_filled_and_comments_left_out() {
        let table = TableName::new("app.mutexes").unwrap();
        let text = Statement::new(
            "-- {names}\nSELECT 1\n  FROM soloist_mutexes WHERE name IN ({names});\n",
            &table,
            '`',
            SCHEMA_MARK,
        );
        let filled = text.with(&[("names", &list(["a", "b"]))]);
        assert_eq!(filled, "SELECT 1 FROM `app`.`mutexes` WHERE name IN ('a', 'b');");
        let unqualified = TableName::new("mutexes").unwrap();
        let text =
            Statement::new("SELECT 1 FROM soloist_mutexes, soloist_mutexes_runs", &unqualified, '"', SCHEMA_MARK);
        let filled = text.with(&[]).replace(SCHEMA_MARK, "public.");
        assert_eq!(filled, r#"SELECT 1 FROM public."mutexes", public."mutexes_runs""#);
    }
}
