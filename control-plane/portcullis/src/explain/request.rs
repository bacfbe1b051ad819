use std::collections::BTreeMap;

use portcullis_core::identity::{Extra, UserInfo};
use serde::Deserialize;
use serde_json::Value;

use super::arguments::{Explain, Impersonation};
use super::paste::PastedRequest;

/// A request to explain, and what is assumed about it.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) host: Option<String>,
    pub(super) headers: Option<Vec<(String, String)>>,
    pub(super) user: Option<User>,
    pub(super) reviews: Option<GivenReviews>,
    pub(super) expect: Option<Value>,
    /// Unknown members, which may be typing errors.
    #[serde(flatten)]
    pub(super) unknown: BTreeMap<String, Value>,
}

/// The part of a line that can be read although the line is no request.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    pub(super) id: Value,
}

/// The user of the request, as authentication would find it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    name: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// The upstream's answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GivenReviews {
    /// The status of a TokenReview.
    pub(super) token: Option<Value>,
    /// Of every SubjectAccessReview.
    pub(super) impersonation: Option<Impersonation>,
}

impl User {
    pub(super) fn info(&self) -> UserInfo {
        let extra = self.extra.iter().flatten();
        UserInfo {
            name: self.name.clone().unwrap_or_default(),
            uid: self.uid.clone().unwrap_or_default(),
            groups: self.groups.clone().unwrap_or_default(),
            extra: extra
                .map(|(key, values)| Extra { key: key.clone(), values: values.clone().unwrap_or_default() })
                .collect(),
        }
    }
}

impl Request {
    /// A request by an authenticated user, or by an anonymous one; whom that user wants to act as is allowed.
    pub(super) fn of_user(pasted: &PastedRequest, user: Option<UserInfo>) -> Self {
        Request {
            id: Value::Null,
            method: pasted.method.clone(),
            target: pasted.target.clone(),
            host: None,
            headers: Some(pasted.headers.clone()),
            user: user.map(|user| User { name: Some(user.name), groups: Some(user.groups), ..User::default() }),
            reviews: Some(GivenReviews { token: None, impersonation: Some(Impersonation::Allow) }),
            expect: None,
            unknown: BTreeMap::new(),
        }
    }

    /// Reads the flags of one request. Errors are messages for the caller.
    pub(super) fn from_arguments(arguments: &Explain) -> Result<Self, String> {
        let (Some(method), Some(target)) = (&arguments.method, &arguments.target) else {
            return Err("METHOD and TARGET are required without --batch, as in: explain GET /api/v1/pods".to_owned());
        };
        let mut headers = Vec::new();
        for header in &arguments.header {
            let (name, value) =
                header.split_once(':').ok_or_else(|| format!("--header {header:?} is not NAME: VALUE"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let review = |text: &String| {
            serde_json::from_str(text).map_err(|error| format!("--token-review is not a TokenReview's status: {error}"))
        };
        Ok(Request {
            id: Value::Null,
            method: method.clone(),
            target: target.clone(),
            host: arguments.host.clone(),
            headers: Some(headers),
            user: user(arguments)?,
            reviews: Some(GivenReviews {
                token: arguments.token_review.as_ref().map(review).transpose()?,
                impersonation: arguments.impersonation,
            }),
            expect: None,
            unknown: BTreeMap::new(),
        })
    }
}

fn user(arguments: &Explain) -> Result<Option<User>, String> {
    let Some(name) = &arguments.user else { return Ok(None) };
    let mut extra: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for pair in &arguments.extra {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("--extra {pair:?} is not KEY=VALUE"))?;
        extra.entry(key.to_owned()).or_default().get_or_insert_default().push(value.to_owned());
    }
    Ok(Some(User {
        name: Some(name.clone()),
        uid: arguments.uid.clone(),
        groups: Some(arguments.group.clone()),
        extra: Some(extra),
    }))
}
