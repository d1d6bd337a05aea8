//! Errors as vLLM words them.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// A refusal with its status code.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<String>,
}

impl ApiError {
    /// 400: the request itself is wrong; `param` names the field.
    pub(super) fn bad_request(message: impl Into<String>, param: Option<&str>) -> Self {
        let (status, kind) = (StatusCode::BAD_REQUEST, "BadRequestError");
        Self {
            status,
            kind,
            message: message.into(),
            param: param.map(str::to_owned),
        }
    }

    /// 404: there is no such model here.
    pub(super) fn no_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist.");
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message,
            param: Some("model".to_owned()),
        }
    }

    /// 404: there is no such path, or not with this method.
    pub(super) fn no_path() -> Self {
        let message = "There is nothing at this path for this method.".to_owned();
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message,
            param: None,
        }
    }

    /// 500: the engine failed on this request.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        let (status, kind) = (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError");
        Self {
            status,
            kind,
            message: message.into(),
            param: None,
        }
    }

    /// 503: the server takes no more requests.
    pub(super) fn unavailable(message: &str) -> Self {
        let (status, kind) = (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError");
        Self {
            status,
            kind,
            message: message.to_owned(),
            param: None,
        }
    }

    /// The body.
    pub(super) fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status.as_u16(),
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.to_json())).into_response()
    }
}
