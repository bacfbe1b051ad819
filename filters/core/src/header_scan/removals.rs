/// Headers of which Envoy adds one to nearly every request, for its origin. They mean nothing to kube-apiserver.
pub(super) const FROM_OUTSIDE: &[u8] = b"x-envoy-external-address";
pub(super) const FROM_INSIDE: &[u8] = b"x-envoy-internal";

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
    pub(super) authorization: bool,
    pub(super) from_outside: bool,
    pub(super) from_inside: bool,
    pub(super) others: Vec<Box<[u8]>>,
}

impl HeaderRemovals {
    /// Header names to remove; may contain duplicates.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let authorization = self.authorization.then_some(&b"authorization"[..]);
        let from_outside = self.from_outside.then_some(FROM_OUTSIDE);
        let from_inside = self.from_inside.then_some(FROM_INSIDE);
        let usual = [authorization, from_outside, from_inside].into_iter().flatten();
        usual.chain(self.others.iter().map(|name| &**name))
    }
}
