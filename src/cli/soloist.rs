//! The program `soloist`: protects commands from running over themselves, and shows and frees what a store has.

fn main() -> std::process::ExitCode {
    soloist::cli::run_tool()
}
