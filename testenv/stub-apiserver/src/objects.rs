//! Create, get, list, update, patch and delete of kept objects.

use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::patch::merge;
use crate::protobuf;
use crate::resources::Resource;
use crate::route::{Target, flag, query};
use crate::status::{self, Answer};
use crate::store::{Filter, Key, Refused, Store, set_metadata};
use crate::text::lossy;
use crate::watch;

/// One request about kept objects.
pub(crate) struct Request<'a> {
    pub(crate) served: &'static Resource,
    pub(crate) target: &'a Target,
    pub(crate) method: &'a str,
    /// Path with query.
    pub(crate) uri: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

impl Request<'_> {
    pub(crate) fn answer(&self, store: &std::sync::Arc<Store>) -> Answer {
        let named = !self.target.name.is_empty();
        match (self.method, named) {
            ("GET" | "HEAD", true) => self.get(store),
            ("GET" | "HEAD", false) if flag(self.uri, "watch") => watch::answer(store, self.filter(), self.uri),
            ("GET" | "HEAD", false) => self.list(store),
            ("POST", false) => self.create(store),
            ("PUT", true) => self.body_json().map_or_else(|refusal| *refusal, |object| self.update(store, object)),
            ("PATCH", true) => self.patch(store),
            ("DELETE", true) => self.delete(store),
            ("DELETE", false) => self.delete_all(store),
            _ => status::failure(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
                None,
            ),
        }
    }

    fn key(&self) -> Key {
        Key::new(self.served, &self.target.namespace, &self.target.name)
    }

    fn filter(&self) -> Filter {
        let selector = query(self.uri, "fieldSelector").unwrap_or_default();
        let name = selector.split(',').find_map(|term| term.strip_prefix("metadata.name="));
        let name = name.map(|name| name.trim_start_matches('=').to_owned()).unwrap_or_default();
        let namespace = self.target.namespace.clone();
        Filter { group: self.served.group, resource: self.served.plural, namespace, name }
    }

    fn get(&self, store: &Store) -> Answer {
        match store.get(&self.key()) {
            Some(object) => status::json(StatusCode::OK, &object),
            None => self.refused(Refused::Absent, &self.target.name),
        }
    }

    fn list(&self, store: &Store) -> Answer {
        let (items, version) = store.list(&self.filter());
        let list = json!({
            "kind": format!("{}List", self.served.kind), "apiVersion": self.served.api_version(),
            "metadata": {"resourceVersion": version.to_string()}, "items": items,
        });
        status::json(StatusCode::OK, &list)
    }

    fn create(&self, store: &Store) -> Answer {
        let mut object = match self.body_json() {
            Ok(object) => object,
            Err(refusal) => return *refusal,
        };
        let metadata =
            |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default();
        let mut name = metadata("name").to_owned();
        if name.is_empty() && !metadata("generateName").is_empty() {
            name = format!("{}{:05}", metadata("generateName"), store.list(&self.filter()).1);
        }
        if name.is_empty() {
            let message = format!(
                "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
                self.served.kind
            );
            return status::failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &message, None);
        }
        self.complete(&mut object, &name);
        let key = Key { name: name.clone(), ..self.key() };
        self.written(StatusCode::CREATED, store.create(key, object), &name)
    }

    fn update(&self, store: &Store, mut object: Value) -> Answer {
        self.complete(&mut object, &self.target.name);
        self.written(StatusCode::OK, store.update(self.key(), object), &self.target.name)
    }

    fn patch(&self, store: &Store) -> Answer {
        let kind = self.headers.get("content-type").map(lossy).unwrap_or_default();
        let merging =
            ["application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"];
        if !merging.iter().any(|known| kind.starts_with(known)) {
            return unsupported(&kind);
        }
        let patch = match serde_json::from_slice::<Value>(self.body) {
            Ok(patch) => patch,
            Err(error) => return status::bad_request(&error.to_string()),
        };
        let Some(mut object) = store.get(&self.key()) else {
            // Server-side apply makes what is not there.
            if kind.starts_with("application/apply-patch") {
                let mut object = patch;
                self.complete(&mut object, &self.target.name);
                return self.written(StatusCode::CREATED, store.create(self.key(), object), &self.target.name);
            }
            return self.refused(Refused::Absent, &self.target.name);
        };
        merge(&mut object, &patch);
        self.update(store, object)
    }

    fn delete(&self, store: &Store) -> Answer {
        match store.delete(self.key()) {
            Ok(_) => success(self.served, &self.target.name),
            Err(refused) => self.refused(refused, &self.target.name),
        }
    }

    fn delete_all(&self, store: &Store) -> Answer {
        for key in store.keys(&self.filter()) {
            // Another client may have deleted it meanwhile.
            let _ = store.delete(key);
        }
        self.list(store)
    }

    fn complete(&self, object: &mut Value, name: &str) {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!(self.served.api_version()));
            fields.insert("kind".to_owned(), json!(self.served.kind));
        }
        set_metadata(object, "name", json!(name));
        if self.served.namespaced {
            set_metadata(object, "namespace", json!(self.target.namespace));
        }
    }

    fn body_json(&self) -> Result<Value, Box<Answer>> {
        let kind = self.headers.get("content-type").map(lossy).unwrap_or_default();
        // The handler has turned protobuf of known kinds into JSON; what still starts with its magic stays unknown.
        let known = kind.is_empty() || kind.starts_with("application/json") || kind == protobuf::CONTENT_TYPE;
        if !known || self.body.starts_with(b"k8s\0") {
            return Err(Box::new(unsupported(&kind)));
        }
        match serde_json::from_slice(self.body) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(_) => Err(Box::new(status::bad_request("the body is no object"))),
            Err(error) => Err(Box::new(status::bad_request(&error.to_string()))),
        }
    }

    fn written(&self, code: StatusCode, outcome: Result<Value, Refused>, name: &str) -> Answer {
        match outcome {
            Ok(object) => status::json(code, &object),
            Err(refused) => self.refused(refused, name),
        }
    }

    fn refused(&self, refused: Refused, name: &str) -> Answer {
        let (group, resource) = (self.served.group, self.served.plural);
        match refused {
            Refused::Absent => status::not_found(group, resource, name),
            Refused::Exists => status::conflict("AlreadyExists", group, resource, name),
            Refused::Stale => status::conflict("Conflict", group, resource, name),
        }
    }
}

fn unsupported(kind: &str) -> Answer {
    let message = format!("the body of the request was in an unknown format: {kind}");
    status::failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", &message, None)
}

fn success(served: &Resource, name: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": status::object_details(served.group, served.plural, name),
    });
    status::json(StatusCode::OK, &status)
}
