use std::fmt;

/// Something wrong with an object, or worth a warning. It is always the fault of the object's writer: trying again
/// without an edit does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, as `spec.servers[0].endpoint`; empty when the whole object is meant.
    pub path: String,
    /// The subject, for programs.
    pub code: ProblemCode,
    /// The problem. It never holds the value of a secret field.
    pub message: String,
    /// A correct value, if one is known.
    pub hint: Option<String>,
}

impl Problem {
    /// Why the field at `path` is refused.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::coded(ProblemCode::Invalid, path, message)
    }

    /// A problem of the field at `path`.
    pub fn coded(code: ProblemCode, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), code, message: message.into(), hint: None }
    }

    /// Adds what would be right.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Problem {
    /// The field and the subject, for readers who may not read the object: the message may quote what is in it.
    pub fn outline(&self) -> String {
        if self.path.is_empty() { self.code.to_string() } else { format!("{}: {}", self.path, self.code) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " (hint: {hint})"))
    }
}

/// The subject of a [`crate::Problem`], in one word that programs may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemCode {
    /// The object is refused.
    Invalid,
    /// A reference that is not resolved: the object is refused, unless the caller cannot resolve any.
    Unresolved,
    /// A field that is known and does nothing.
    NoEffect,
    /// Accepted, but weaker or other than its writer may expect.
    Caution,
    /// A feature gate that does not exist.
    UnknownGate,
    /// Earlier policies match everything that this one matches.
    UnreachablePolicy,
    /// Earlier rules match everything that this one matches.
    UnreachableRule,
    /// A rule, a field or an entry that no request can match.
    NeverMatches,
    /// Exclusions beside a positive entry, which do not count.
    MixedEntries,
    /// Entries beside `*`, which do not count.
    BesideWildcard,
    /// A `*` in a field whose entries are compared as they stand.
    NoPattern,
    /// KubeGateway's code does something else with the same text.
    DiffersFromKubegateway,
    /// Requests of a kind that match no policy.
    MissingDefault,
    /// A flow control schema that no policy names.
    UnusedSchema,
    /// A limit or a set of servers that lets no request through.
    RefusesEverything,
    /// A certificate that has expired, expires soon or is not valid yet.
    Expiry,
    /// Neither the object nor the settings have a serving certificate.
    NoServingCertificate,
    /// Neither the object nor the settings have a client CA.
    NoClientCa,
    /// A text without quotes that YAML 1.1 reads as a boolean.
    Yaml11Boolean,
    /// The settings do not allow this virtual IP.
    VirtualIpNotAllowed,
    /// A profile has taken the place of the spec's policies and limits.
    ProfileInEffect,
    /// Connections are passed on, not judged.
    PassedOn,
}

impl ProblemCode {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            ProblemCode::Invalid => "invalid",
            ProblemCode::Unresolved => "unresolved",
            ProblemCode::NoEffect => "no-effect",
            ProblemCode::Caution => "caution",
            ProblemCode::UnknownGate => "unknown-gate",
            ProblemCode::UnreachablePolicy => "unreachable-policy",
            ProblemCode::UnreachableRule => "unreachable-rule",
            ProblemCode::NeverMatches => "never-matches",
            ProblemCode::MixedEntries => "mixed-entries",
            ProblemCode::BesideWildcard => "beside-wildcard",
            ProblemCode::NoPattern => "no-pattern",
            ProblemCode::DiffersFromKubegateway => "differs-from-kubegateway",
            ProblemCode::MissingDefault => "missing-default",
            ProblemCode::UnusedSchema => "unused-schema",
            ProblemCode::RefusesEverything => "refuses-everything",
            ProblemCode::Expiry => "expiry",
            ProblemCode::NoServingCertificate => "no-serving-certificate",
            ProblemCode::NoClientCa => "no-client-ca",
            ProblemCode::Yaml11Boolean => "yaml11-boolean",
            ProblemCode::VirtualIpNotAllowed => "virtual-ip-not-allowed",
            ProblemCode::ProfileInEffect => "profile-in-effect",
            ProblemCode::PassedOn => "passed-on",
        }
    }
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
