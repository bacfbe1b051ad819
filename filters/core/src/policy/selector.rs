/// A rule's list, compiled: `*` is everything, positive entries are alternatives, and a list of exclusions only excludes
/// every one of them. Exclusions beside a positive entry do not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selector<P> {
    All,
    AnyOf(Vec<P>),
    NoneOf(Vec<P>),
}

/// What an entry of a list is compared with.
pub(super) trait Pattern: Sized {
    /// What one entry is matched against.
    type Subject<'a>: ?Sized;

    /// Reads an entry, without its leading `-`.
    fn parse(entry: &str) -> Self;

    /// Whether the entry covers the subject.
    fn covers(&self, subject: &Self::Subject<'_>) -> bool;
}

impl<P: Pattern> Selector<P> {
    /// Compiles a list. What an empty one means is the field's own rule.
    pub(super) fn new(entries: &[String], empty: Selector<P>) -> Self {
        if entries.is_empty() {
            return empty;
        }
        if entries.iter().any(|entry| entry == "*") {
            return Selector::All;
        }
        let positives: Vec<P> = entries.iter().filter(|e| !e.starts_with('-')).map(|e| P::parse(e)).collect();
        if !positives.is_empty() {
            return Selector::AnyOf(positives);
        }
        Selector::NoneOf(entries.iter().filter_map(|entry| entry.strip_prefix('-')).map(P::parse).collect())
    }

    /// Nothing at all.
    pub(super) const fn nothing() -> Self {
        Selector::AnyOf(Vec::new())
    }

    pub(super) fn matches(&self, subject: &P::Subject<'_>) -> bool {
        match self {
            Selector::All => true,
            Selector::AnyOf(patterns) => patterns.iter().any(|pattern| pattern.covers(subject)),
            Selector::NoneOf(patterns) => !patterns.iter().any(|pattern| pattern.covers(subject)),
        }
    }
}

/// The same text; behind a `-`, a lone `*` is everything.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exact {
    Everything,
    Text(Box<[u8]>),
}

impl Pattern for Exact {
    type Subject<'a> = [u8];

    fn parse(entry: &str) -> Self {
        if entry == "*" { Exact::Everything } else { Exact::Text(entry.as_bytes().into()) }
    }

    fn covers(&self, subject: &[u8]) -> bool {
        match self {
            Exact::Everything => true,
            Exact::Text(text) => **text == *subject,
        }
    }
}

/// The same text, or the same beginning where the entry ends in `*`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    Text(Box<[u8]>),
    Start(Box<[u8]>),
}

impl Pattern for Prefix {
    type Subject<'a> = [u8];

    fn parse(entry: &str) -> Self {
        match entry.strip_suffix('*') {
            Some(start) => Prefix::Start(start.as_bytes().into()),
            None => Prefix::Text(entry.as_bytes().into()),
        }
    }

    fn covers(&self, subject: &[u8]) -> bool {
        match self {
            Prefix::Text(text) => **text == *subject,
            Prefix::Start(start) => subject.starts_with(start),
        }
    }
}

/// `resource`, `resource/subresource` or `*/subresource`. `resource/*` covers nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResourcePattern {
    Everything,
    Resource(Box<[u8]>),
    Subresource { resource: Box<[u8]>, subresource: Box<[u8]> },
    AnySubresource(Box<[u8]>),
    Nothing,
}

impl Pattern for ResourcePattern {
    /// Resource and subresource.
    type Subject<'a> = (&'a [u8], &'a [u8]);

    fn parse(entry: &str) -> Self {
        match entry.split_once('/') {
            None if entry == "*" => ResourcePattern::Everything,
            None => ResourcePattern::Resource(entry.as_bytes().into()),
            Some((_, "*" | "")) => ResourcePattern::Nothing,
            Some(("*", subresource)) => ResourcePattern::AnySubresource(subresource.as_bytes().into()),
            Some((resource, subresource)) => ResourcePattern::Subresource {
                resource: resource.as_bytes().into(),
                subresource: subresource.as_bytes().into(),
            },
        }
    }

    fn covers(&self, (resource, subresource): &(&[u8], &[u8])) -> bool {
        match self {
            ResourcePattern::Everything => true,
            ResourcePattern::Resource(wanted) => subresource.is_empty() && **wanted == **resource,
            ResourcePattern::Subresource { resource: wanted, subresource: sub } => {
                **wanted == **resource && **sub == **subresource
            }
            ResourcePattern::AnySubresource(sub) => **sub == **subresource,
            ResourcePattern::Nothing => false,
        }
    }
}
