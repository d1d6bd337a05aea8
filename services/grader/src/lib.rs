//! tidemill-grader.
