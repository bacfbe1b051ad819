use std::fmt;

/// Most characters of a message. The definitions allow 32,768, which a route with 1,024 host names could exceed.
const MAX_MESSAGE: usize = 1_024;

/// A condition of an object, a listener or a parent, without time and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionVerdict {
    /// Its type, a word of the Gateway API.
    pub kind: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// Why, in one word for programs.
    pub reason: &'static str,
    /// Why, for people: one line of bounded length.
    pub message: String,
}

/// Why something does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The subject of a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// A field without an effect, or with another one than its author may expect.
    NoEffect,
    /// An object that is not here and is assumed to exist.
    Assumed,
}

/// Something that is accepted and does not do what its author may expect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The subject.
    pub kind: NoteKind,
    /// The field.
    pub path: String,
    /// Its effect, or the lack of one.
    pub message: String,
}

/// Conditions that nothing is known of, by type and reason.
const UNKNOWN: [(&str, &str); 2] = [("Accepted", "Pending"), ("SupportedVersion", "VersionNotRead")];

impl ConditionVerdict {
    /// The status as it is written. One that is neither `True` nor `False` does not hold either.
    pub fn written_status(&self) -> &'static str {
        match self.status {
            true => "True",
            false if UNKNOWN.contains(&(self.kind, self.reason)) => "Unknown",
            false => "False",
        }
    }

    pub(crate) fn holds(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: true, reason, message: bounded(&message.into()) }
    }

    pub(crate) fn fails(kind: &'static str, why: &Rejection) -> Self {
        Self { kind, status: false, reason: why.reason, message: bounded(&why.message) }
    }

    /// One that holds with `good` as its reason, unless there is a rejection.
    pub(crate) fn unless(kind: &'static str, good: &'static str, why: Option<&Rejection>) -> Self {
        why.map_or_else(|| Self::holds(kind, good, ""), |why| Self::fails(kind, why))
    }
}

impl Rejection {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Fields that are set and not served.
    pub(crate) fn of_fields(paths: &[String]) -> Option<Self> {
        let verb = if paths.len() == 1 { "is" } else { "are" };
        (!paths.is_empty()).then(|| Self::new("UnsupportedValue", format!("{} {verb} not supported", paths.join(", "))))
    }
}

impl Note {
    pub(crate) fn no_effect(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: NoteKind::NoEffect, path: path.into(), message: message.into() }
    }

    pub(crate) fn assumed(path: impl Into<String>, kind: &str, name: impl fmt::Display) -> Self {
        let message = format!("{kind} {name} is not among the objects; it is assumed to exist");
        Self { kind: NoteKind::Assumed, path: path.into(), message }
    }

    /// An object with keys or certificates, which is not looked at even if it is among the objects.
    pub(crate) fn unread(path: impl Into<String>, kind: &str, name: impl fmt::Display) -> Self {
        let message = unread_content(kind, name);
        Self { kind: NoteKind::Assumed, path: path.into(), message }
    }

    /// The note as a part of a condition's message.
    pub fn in_words(&self) -> String {
        format!("{} {}", self.path, self.message)
    }
}

/// The message about a Secret or a `ConfigMap` that is not read.
pub fn unread_content(kind: &str, name: impl fmt::Display) -> String {
    format!("{kind} {name} is not read, also if it is among the objects; it is assumed to exist")
}

/// The words of those that are about an effect, for the message of an accepted object.
pub(crate) fn effects_in_words(notes: &[Note]) -> impl Iterator<Item = String> + '_ {
    notes.iter().filter(|note| note.kind == NoteKind::NoEffect).map(Note::in_words)
}

/// A message may have names of fields as they are written in an object.
fn bounded(message: &str) -> String {
    let mut plain = message.chars().map(|one| if one.is_control() { ' ' } else { one });
    let mut text: String = plain.by_ref().take(MAX_MESSAGE).collect();
    if plain.next().is_some() {
        text.pop();
        text.push('…');
    }
    text
}
