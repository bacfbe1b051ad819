//! The limit of open files, which thousands of connections need raised. Child processes inherit it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::BenchError;

/// Raises it to the most that the system allows this user, which is returned; `None` is no limit.
pub(crate) fn raise() -> Result<Option<u64>, BenchError> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|errno| BenchError::Write { path: "the limit of open files".to_owned(), source: errno.into() })?;
    Ok(maximum)
}
