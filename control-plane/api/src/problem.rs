use std::fmt;

/// Something wrong with an object, or worth a warning. It is always the fault of the object's writer: trying again
/// without an edit does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, as `spec.servers[0].endpoint`; empty when the whole object is meant.
    pub path: String,
    /// What is wrong and what would be right. It never holds the value of a secret field.
    pub message: String,
}

impl Problem {
    /// A problem of the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}
