//! The JSON Schemas of what leaves Tidemill, rendered from the types.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;
use tidemill_domain::{EvaluationEvent, EvaluationResult, ResultMessage, RolledBack, ServerGroup, Written};

/// A published schema: the file's name below `streams/schemas`, and its content.
pub struct Published {
    /// The file's name.
    pub file: &'static str,
    /// The schema, draft 2020-12.
    pub schema: Value,
}

/// Every published schema.
#[must_use]
pub fn published() -> Vec<Published> {
    vec![
        Published {
            file: "checkpoint-written.json",
            schema: of::<Written>(),
        },
        Published {
            file: "checkpoint-rolled-back.json",
            schema: of::<RolledBack>(),
        },
        Published {
            file: "evaluation.json",
            schema: of::<EvaluationEvent>(),
        },
        Published {
            file: "result.json",
            schema: of::<ResultMessage>(),
        },
        Published {
            file: "evaluation-result.json",
            schema: of::<EvaluationResult>(),
        },
        Published {
            file: "server-group.json",
            schema: of::<ServerGroup>(),
        },
    ]
}

fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12();
    SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value()
}
