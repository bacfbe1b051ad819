use std::path::PathBuf;

/// Why there is no table, or no run. Faults of a file or of the machine; to try again helps only where the text says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{step} {}: {source}", path.display())]
    File {
        /// The step that failed.
        step: &'static str,
        /// On which path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is not what it should be: its writer's fault.
    #[error("reading {what}: {source}")]
    Json {
        /// Which file.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The page has no place for the table.
    #[error("{0} has not the two marks between which the table stands")]
    Marks(&'static str),
    /// A combination or a test of one was not run.
    #[error("{what} was not run: run `make compatibility`")]
    NotRun {
        /// The missing thing.
        what: String,
    },
    /// Something in the list of features is wrong: its writer's fault.
    #[error("{what} in the list of features: {why}")]
    List {
        /// The part.
        what: String,
        /// The problem with it.
        why: &'static str,
    },
    /// A program could not be run.
    #[error("running {program}: {source}")]
    Program {
        /// Which.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The tests did not build.
    #[error("the tests do not build, or have no suite {suite:?}")]
    Suite {
        /// The suite that was wanted.
        suite: String,
    },
}
