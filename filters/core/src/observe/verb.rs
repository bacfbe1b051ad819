/// A verb of a closed set, by its place in [`Verb::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verb(u8);

impl Verb {
    /// Kubernetes' verbs, and lower-case HTTP methods for plain paths.
    pub(super) const ALL: [&'static str; 15] = [
        "other",
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "proxy",
        "head",
        "post",
        "put",
        "options",
        "trace",
    ];

    pub(super) fn of(verb: &[u8]) -> Self {
        Verb(match verb {
            b"get" => 1,
            b"list" => 2,
            b"watch" => 3,
            b"create" => 4,
            b"update" => 5,
            b"patch" => 6,
            b"delete" => 7,
            b"deletecollection" => 8,
            b"proxy" => 9,
            b"head" => 10,
            b"post" => 11,
            b"put" => 12,
            b"options" => 13,
            b"trace" => 14,
            _ => 0,
        })
    }

    pub(super) const fn code(self) -> u8 {
        self.0
    }

    pub(super) fn label(code: u8) -> &'static str {
        Self::ALL.get(usize::from(code)).copied().unwrap_or("other")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_own_label_and_the_rest_is_other() {
        for verb in Verb::ALL {
            assert_eq!(Verb::label(Verb::of(verb.as_bytes()).code()), verb);
        }
        for invented in [&b""[..], b"GET", b"purge", b"get ", b"\xff", &[b'x'; 10_000]] {
            assert_eq!(Verb::label(Verb::of(invented).code()), "other");
        }
    }
}
