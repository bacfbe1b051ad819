//! A client that sends the headers of a case, and the answers.

use portcullis_harness::certs::Identity;
use portcullis_harness::client::{H2Client, Response, TlsConnection, TlsTarget};
use serde_json::{Value, json};

use super::cases::{Form, Lines};
use crate::fixture::NAME;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// A path that no user here may use; kube-apiserver's refusal names the user. A review on an upgrade would not do: the bytes
/// after the head of an upgrade are its tunnel, not a body.
const EXEC: &str = "/api/v1/namespaces/default/pods/none/exec?command=x";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

/// Status, and what kube-apiserver says of the user, or the reason of the refusal. Of an upgrade, which user was refused.
pub(super) type Outcome = (u16, Value);

/// The credential of a client.
pub(super) enum Credential {
    Certificate(Box<Identity>),
    Token(String),
    None,
}

/// A client of one server with one credential: HTTP/1.1 kept alive as long as the server likes, HTTP/2 alike.
pub(super) struct Client {
    target: TlsTarget,
    authorization: Option<String>,
    is_certain: bool,
    h1: Option<TlsConnection>,
    h2: Option<H2Client>,
}

impl Client {
    pub(super) fn new(target: TlsTarget, credential: &Credential) -> Self {
        let is_certain = !matches!(credential, Credential::None);
        let (target, authorization) = match credential {
            Credential::Certificate(identity) => (target.identity(identity), None),
            Credential::Token(token) => (target, Some(format!("Bearer {token}"))),
            Credential::None => (target, None),
        };
        Client { target, authorization, is_certain, h1: None, h2: None }
    }

    pub(super) fn send(&mut self, case: Lines<'_>, form: Form) -> Outcome {
        outcome(&match form {
            Form::H2Once | Form::H2Twice => self.send_h2(case, form),
            _ => self.send_h1(case, form),
        })
    }

    pub(super) fn send_h1(&mut self, case: Lines<'_>, form: Form) -> Response {
        let is_upgrade = matches!(form, Form::Upgrade | Form::NominatedUpgrade);
        let (path, body) = if is_upgrade { (EXEC, "") } else { (REVIEWS, REVIEW) };
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in lines(case, form) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match (form, case) {
            (Form::Nominated, [(name, _), ..]) => request.push_str(&format!("Connection: {name}\r\n")),
            (Form::NominatedUpgrade, [(name, _), ..]) => {
                request.push_str(&format!("Connection: Upgrade, {name}\r\nUpgrade: websocket\r\n"));
            }
            (Form::Upgrade, _) => request.push_str("Connection: Upgrade\r\nUpgrade: websocket\r\n"),
            _ => {}
        }
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        let request = format!("{request}\r\n{body}");
        let mut connection = self.h1.take().unwrap_or_else(|| self.target.connect().unwrap());
        connection.write(request.as_bytes()).unwrap();
        let response = connection.read_response(false).unwrap();
        let is_last = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        // Bytes after an upgrade request are not HTTP.
        self.h1 = (!is_last && !is_upgrade).then_some(connection);
        response
    }

    pub(super) fn send_h2(&mut self, case: Lines<'_>, form: Form) -> Response {
        let mut headers: Vec<(String, Vec<u8>)> =
            lines(case, form).into_iter().map(|(name, value)| (name.to_lowercase(), value.into_bytes())).collect();
        headers.push(("content-type".to_owned(), b"application/json".to_vec()));
        if let Some(authorization) = &self.authorization {
            headers.push(("authorization".to_owned(), authorization.clone().into_bytes()));
        }
        let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        let usable = self.h2.take().filter(|client| !client.is_closed());
        let client = usable.unwrap_or_else(|| H2Client::connect(&self.target).unwrap());
        let response = client.request("POST", REVIEWS, &headers, REVIEW.as_bytes()).unwrap();
        // kube-apiserver closes the connection after an answer to an anonymous request.
        self.h2 = self.is_certain.then_some(client);
        response
    }
}

fn lines(case: Lines<'_>, form: Form) -> Vec<(String, String)> {
    let line = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut lines: Vec<_> = case.iter().map(line).collect();
    let Some((name, value)) = lines.first().cloned() else { return lines };
    match form {
        Form::Twice | Form::H2Twice => lines.insert(1, (name, format!("{value}2"))),
        Form::MixedCase => lines[0].0 = mixed_case(&name),
        Form::Underscore => lines[0].0 = name.replace('-', "_"),
        _ => {}
    }
    lines
}

fn mixed_case(name: &str) -> String {
    let flip = |(index, c): (usize, char)| {
        if index % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }
    };
    name.chars().enumerate().map(flip).collect()
}

fn outcome(response: &Response) -> Outcome {
    let mut body = response.json().unwrap_or_else(|_| json!({"reason": response.text()}));
    let names_user = |text: &str| text.contains("cannot create resource \"pods/exec\"");
    let told = match body["message"].as_str() {
        Some(message) if names_user(message) => json!(message),
        _ if response.status == 201 => body["status"]["userInfo"].take(),
        _ => body["reason"].take(),
    };
    (response.status, told)
}
