//! Authorization: every authenticated user may do everything, with the few exceptions that tests need.

use serde_json::json;

use crate::options::StubOptions;
use crate::route::{Route, Target};
use crate::status::{self, Answer, object_details};
use crate::user::User;

/// The action to authorize.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    /// A non-resource path that anonymous users may read.
    pub(crate) public: bool,
    /// Discovery, which every authenticated user may read (the cluster role `system:discovery`).
    pub(crate) discovery: bool,
}

pub(crate) fn may_impersonate(options: &StubOptions, user: &User) -> bool {
    user.is_in("system:masters") || options.impersonators.contains(&user.username)
}

/// The stub's whole policy.
pub(crate) fn allowed(options: &StubOptions, user: &User, attributes: Attributes<'_>) -> bool {
    if user.is_in("system:masters") || attributes.public {
        return true;
    }
    if attributes.verb.starts_with("impersonate") {
        return may_impersonate(options, user);
    }
    !user.is_anonymous() && (attributes.discovery || !options.forbidden_users.contains(&user.username))
}

/// The 403 that a request meets, if it does.
pub(crate) fn check(
    options: &StubOptions,
    user: &User,
    method: &str,
    path: &str,
    route: &Route,
) -> Result<(), Box<Answer>> {
    let verb = verb(method);
    let public = matches!(route, Route::Health | Route::Version);
    let discovery =
        verb == "get" && matches!(route, Route::CoreVersions | Route::Groups | Route::Group(_) | Route::Resources(..));
    if allowed(options, user, Attributes { verb, public, discovery }) {
        return Ok(());
    }
    let name = &user.username;
    Err(Box::new(match route {
        Route::Resource(Target { group, resource, name: object, .. }) => {
            let message = format!(
                "{resource} is forbidden: User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\""
            );
            status::forbidden(&message, object_details(group, resource, object))
        }
        _ => status::forbidden(&format!("forbidden: User \"{name}\" cannot {verb} path \"{path}\""), json!({})),
    }))
}

fn verb(method: &str) -> &str {
    match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}
