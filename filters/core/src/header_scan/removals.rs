use super::reserved::FORWARDED_CLIENT_CERT;

/// Headers of which Envoy adds one to nearly every request, for its origin. They mean nothing to kube-apiserver.
pub(super) const FROM_OUTSIDE: &[u8] = b"x-envoy-external-address";
pub(super) const FROM_INSIDE: &[u8] = b"x-envoy-internal";
pub(super) const AUTHORIZATION: &[u8] = b"authorization";

/// Names that honest requests have.
const USUAL: [&[u8]; 6] =
    [AUTHORIZATION, FROM_OUTSIDE, FROM_INSIDE, FORWARDED_CLIENT_CERT, b"impersonate-user", b"impersonate-group"];

/// The client's own identity headers that a request keeps, for the upstream to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// `Authorization`.
    pub credential: bool,
    /// `Impersonate-*`.
    pub impersonation: bool,
}

/// Names of headers to take out of a request. Costs no memory for what honest requests have.
#[derive(Clone, Debug, Default)]
pub struct HeaderRemovals {
    /// Of [`USUAL`].
    usual: [bool; USUAL.len()],
    others: Vec<Box<[u8]>>,
}

impl HeaderRemovals {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut removals = HeaderRemovals::default();
        for name in names {
            let mut usual = USUAL.iter().zip(&mut removals.usual);
            match usual.find(|(usual, _)| **usual == name) {
                Some((_, is_there)) => *is_there = true,
                None => removals.others.push(name.into()),
            }
        }
        removals
    }

    /// Header names to remove. Those that are not usual may be there more than once.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let usual = USUAL.into_iter().zip(self.usual).filter(|(_, is_there)| *is_there);
        usual.map(|(name, _)| name).chain(self.others.iter().map(|name| &**name))
    }
}
