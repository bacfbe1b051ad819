//! The write of lists of which other controllers have entries.
//!
//! A JSON patch compares them with what was read. A server that cannot do that for some text or length answers as if they were others;
//! then the newest version is read, and the lists are compared here.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Error};
use portcullis_sources::ObjectKey;

use super::MANAGER;
use super::replaced_lists::ReplacedLists;
use super::write_error::WriteError;

/// Most versions that are read for one write.
const MAX_VERSIONS: usize = 5;

/// Replaces lists.
pub(super) async fn replace(client: Client, key: &ObjectKey, lists: &ReplacedLists) -> Result<(), WriteError> {
    let objects = key.kind.api_in(client.clone(), &key.namespace);
    if let Some(patch) = lists.json_patch() {
        match send(&client, objects.resource_url(), &key.name, patch).await {
            // A test has failed, or the definition refuses the lists: the server says the same of both. Or it is too long.
            Err(Error::Api(status)) if matches!(status.code, 413 | 422) => {}
            sent => return sent.map_err(WriteError::from),
        }
    }
    replace_newest(&objects, &key.name, lists).await
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Sends a JSON patch as it is: the client would write its strings anew.
async fn send(client: &Client, url: &str, name: &str, patch: Vec<u8>) -> Result<(), Error> {
    let built = Request::new(url).patch_subresource("status", name, &parameters(), &Patch::Merge(()));
    let mut request = built.map_err(Error::BuildRequest)?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json-patch+json"));
    *request.body_mut() = patch;
    client.request_text(request).await.map(drop)
}

/// Replaces lists of the newest version, if they are those that were read.
async fn replace_newest(objects: &Api<DynamicObject>, name: &str, lists: &ReplacedLists) -> Result<(), WriteError> {
    // The control plane may list these objects, and get none.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    for _ in 0..MAX_VERSIONS {
        let newest = objects.list(&named).await?.items.into_iter().next().filter(|object| lists.are_those_of(object));
        let Some(version) = newest.and_then(|object| object.metadata.resource_version) else {
            return Err(WriteError::Comparison);
        };
        match objects.patch_status(name, &parameters(), &Patch::Merge(lists.merge_patch(&version))).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            sent => return sent.map(drop).map_err(WriteError::from),
        }
    }
    Err(WriteError::Comparison)
}

#[cfg(test)]
mod tests;
