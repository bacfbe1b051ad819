use std::borrow::Cow;

use super::{
    AmbiguousPath, AmbiguousQuery, InvalidEscape, RequestInfo, UnresolvablePath, check_query, check_shape,
    unescape_path,
};

/// A request's target, taken apart and percent-decoded once.
#[derive(Clone, Debug)]
pub struct RequestTarget<'a> {
    raw_path: &'a [u8],
    path: Cow<'a, [u8]>,
    /// The query, as the client wrote it.
    pub query: &'a [u8],
}

/// A target that the gateway and a server may read differently, or that no server resolves. The client's fault; the same
/// request fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The path has an invalid percent escape.
    #[error(transparent)]
    Escape(#[from] InvalidEscape),
    /// kube-apiserver finds no verb or resource in the path.
    #[error(transparent)]
    Unresolvable(#[from] UnresolvablePath),
    /// The path can be read in two ways.
    #[error(transparent)]
    Path(#[from] AmbiguousPath),
    /// The query can be read in two ways.
    #[error(transparent)]
    Query(#[from] AmbiguousQuery),
}

impl<'a> RequestTarget<'a> {
    /// Takes a `:path` apart.
    ///
    /// # Errors
    /// [`TargetError::Escape`].
    pub fn parse(target: &'a [u8]) -> Result<Self, TargetError> {
        let (raw_path, query) = match memchr::memchr(b'?', target) {
            Some(mark) => {
                let (path, query) = target.split_at(mark);
                (path, query.get(1..).unwrap_or_default())
            }
            None => (target, &[][..]),
        };
        Ok(RequestTarget { raw_path, path: unescape_path(raw_path)?, query })
    }

    /// Resolves the request as kube-apiserver does.
    ///
    /// # Errors
    /// [`TargetError::Unresolvable`].
    pub fn resolve(&'a self, method: &'a [u8]) -> Result<RequestInfo<'a>, TargetError> {
        Ok(RequestInfo::resolve(method, &self.path, self.query)?)
    }

    /// Checks that every reader of the target understands the same.
    ///
    /// # Errors
    /// [`TargetError::Path`] and [`TargetError::Query`].
    pub fn check(&self, info: &RequestInfo<'_>) -> Result<(), TargetError> {
        check_shape(info, self.raw_path)?;
        check_query(self.query)?;
        Ok(())
    }
}
