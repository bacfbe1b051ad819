use std::fmt;
use std::net::IpAddr;

/// Longest DNS name.
const MAX_NAME: usize = 253;
/// Longest label of a DNS name.
const MAX_LABEL: usize = 63;

/// Host names of a listener or a route, lower-case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// All of them. It is the first in order.
    Any,
    /// One.
    Exact(String),
    /// All that end with a dot and this suffix, with any number of labels before it.
    Wildcard(String),
}

impl HostPattern {
    /// Reads a host name, or a wildcard; `None` if it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix("*.") {
            Some(suffix) => is_name(suffix).then(|| Self::Wildcard(suffix.to_owned())),
            None => (is_name(&text) && text.parse::<IpAddr>().is_err()).then_some(Self::Exact(text)),
        }
    }

    /// Whether every name of `other` is one of these.
    pub fn covers(&self, other: &Self) -> bool {
        #[cfg(test)]
        crate::tests::steps::count(crate::tests::steps::Step::Host);
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Wildcard(suffix), Self::Exact(name)) => is_below(name, suffix),
            (Self::Wildcard(suffix), Self::Wildcard(other)) => suffix == other || is_below(other, suffix),
            (Self::Exact(name), Self::Exact(other)) => name == other,
            (Self::Exact(_) | Self::Wildcard(_), _) => false,
        }
    }

    /// All patterns that cover these names and others, the narrowest first.
    pub fn wider(&self) -> impl Iterator<Item = Self> {
        let parents = self.suffixes().map(|(_, suffix)| Self::Wildcard(suffix.to_owned()));
        let wider = parents.chain((*self != Self::Any).then_some(Self::Any));
        #[cfg(test)]
        let wider = wider.inspect(|_| crate::tests::steps::count(crate::tests::steps::Step::Host));
        wider
    }

    /// The suffixes of the wildcards that cover these names and others, the longest first, each with the number of its labels.
    pub(crate) fn suffixes(&self) -> impl Iterator<Item = (usize, &str)> {
        let name = match self {
            Self::Exact(name) | Self::Wildcard(name) => Some((name.split('.').count(), name.as_str())),
            Self::Any => None,
        };
        std::iter::successors(name, |(labels, name)| Some((labels.saturating_sub(1), name.split_once('.')?.1))).skip(1)
    }

    /// The names of both. Of two patterns one covers the other, or they have none in common.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if self.covers(other) {
            return Some(other.clone());
        }
        other.covers(self).then(|| self.clone())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn is_name(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= MAX_LABEL
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostPattern {
        if text == "*" { HostPattern::Any } else { HostPattern::parse(text).unwrap() }
    }

    #[test]
    fn hosts_are_names_and_wildcards() {
        assert_eq!(host("Foo.Example.com"), HostPattern::Exact("foo.example.com".to_owned()));
        assert_eq!(host("*.com"), HostPattern::Wildcard("com".to_owned()));
        for text in ["", "*", "*.", "a.*.com", "*a.com", "a_b", "-a", "a..b", "a.", "10.0.0.1", "::1", "a:1"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn wider_patterns_are_those_that_cover_a_name() {
        for (text, wanted) in [
            ("*", &[][..]),
            ("test", &["*"]),
            ("x.a.test", &["*.a.test", "*.test", "*"]),
            ("*.a.test", &["*.test", "*"]),
        ] {
            let wider: Vec<HostPattern> = host(text).wider().collect();
            assert_eq!(wider, wanted.iter().map(|text| host(text)).collect::<Vec<_>>(), "{text}");
            assert!(wider.iter().all(|one| one.covers(&host(text)) && *one != host(text)), "{text}");
        }
    }

    #[test]
    fn suffixes_have_the_numbers_of_their_labels() {
        let of =
            |text: &str| host(text).suffixes().map(|(labels, text)| format!("{labels} {text}")).collect::<Vec<_>>();
        assert_eq!(of("x.a.test"), ["2 a.test", "1 test"]);
        assert_eq!(of("*.a.test"), ["1 test"]);
        assert!(of("test").is_empty() && of("*").is_empty());
    }

    #[test]
    fn intersection_is_the_narrower_pattern() {
        for (one, other, wanted) in [
            ("*", "a.test", Some("a.test")),
            ("*", "*", Some("*")),
            ("test.example.com", "*.example.com", Some("test.example.com")),
            ("*.example.com", "foo.test.example.com", Some("foo.test.example.com")),
            ("*.example.com", "*.test.example.com", Some("*.test.example.com")),
            ("*.example.com", "*.com", Some("*.example.com")),
            ("*.example.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "test.example.net", None),
            ("*.example.com", "testexample.com", None),
            ("*.example.com", "*.testexample.com", None),
            ("a.test", "b.test", None),
        ] {
            let wanted = wanted.map(host);
            assert_eq!(host(one).intersection(&host(other)), wanted, "{one} and {other}");
            assert_eq!(host(other).intersection(&host(one)), wanted, "{other} and {one}");
        }
    }
}
