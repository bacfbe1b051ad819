use std::fmt;

use crate::code::Code;

/// Something wrong with an object, or worth a warning. It is always the fault of the object's writer: trying again
/// without an edit does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, as `spec.servers[0].endpoint`; empty when the whole object is meant.
    pub path: String,
    /// The subject, for programs.
    pub code: Code,
    /// The problem. It never holds the value of a secret field.
    pub message: String,
    /// A correct value, if one is known.
    pub hint: Option<String>,
}

impl Problem {
    /// Why the field at `path` is refused.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::coded(Code::Invalid, path, message)
    }

    /// A problem of the field at `path`.
    pub fn coded(code: Code, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), code, message: message.into(), hint: None }
    }

    /// Adds what would be right.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
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
